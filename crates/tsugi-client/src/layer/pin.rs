//! Refuses calls of what a server changed since it was pinned, before anything is sent.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tsugi_pins::store::{ItemVerdict, OfferVerdicts};
use tsugi_pins::strict_arguments::NamedArguments;
use tsugi_pins::{PinKind, PinPolicy};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::completion::CompletionReference;
use tsugi_protocol::mcp::uri_template::UriTemplate;

use crate::catalog::{Catalog, ListSelection};
use crate::layer::validate::ListSource;
use crate::not_found;

/// What of a server may be used now. The server's task fills it with every catalog.
pub(crate) struct PinGate {
    policy: PinPolicy,
    held: ArcSwap<HeldItems>,
    /// What other processes or sessions of the server hold back, while they live.
    replicas: Mutex<Vec<(Weak<()>, HeldNames)>>,
}

/// Why a thing cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldReason {
    Changed,
    Added,
    /// It is in no list, and may be another spelling of what is held back.
    Unlisted,
}

type HeldNames = HashMap<(PinKind, String), HoldReason>;

#[derive(Default, Clone)]
struct HeldItems {
    /// Whether the list of tools was judged.
    has_tools: bool,
    names: HeldNames,
    tools: HashMap<String, Arc<NamedArguments>>,
    /// The prompts that are listed; `None` until that list was judged.
    prompts: Option<HashSet<String>>,
    resources: HashSet<String>,
    templates: HashSet<String>,
}

impl PinGate {
    /// For a server that is held to its pins; `None` for one whose calls are never refused for them.
    pub(crate) fn of(policy: PinPolicy) -> Option<Self> {
        let gate = Self { policy, held: ArcSwap::default(), replicas: Mutex::default() };
        policy.may_refuse().then_some(gate)
    }

    /// Takes over what was judged of the primary's lists.
    pub(crate) fn fill(&self, catalog: &Catalog, lists: ListSelection, verdicts: &OfferVerdicts) {
        let mut held = HeldItems::clone(&self.held.load());
        let is_looked_at = |kind: &PinKind| match kind {
            PinKind::Tool => lists.tools,
            PinKind::Prompt => lists.prompts,
            PinKind::Resource | PinKind::Template => lists.resources,
            _ => true,
        };
        held.names.retain(|(kind, _), _| !is_looked_at(kind));
        held.names.extend(held_names(verdicts));
        if lists.tools {
            held.has_tools = true;
            let of = |tool: &tsugi_protocol::mcp::tool::ToolDescription| {
                (tool.name().to_owned(), Arc::new(named_arguments(tool, self.policy)))
            };
            held.tools = catalog.tools.items.iter().map(of).collect();
        }
        if lists.prompts {
            held.prompts = Some(catalog.prompts.items.iter().map(|prompt| prompt.name().to_owned()).collect());
        }
        if lists.resources {
            held.resources = catalog.resources.items.iter().map(|resource| resource.uri().to_owned()).collect();
            let good = catalog.templates.items.iter().map(|template| template.uri().to_owned());
            held.templates = good.filter(|uri| !held.names.contains_key(&(PinKind::Template, uri.clone()))).collect();
        }
        self.held.store(Arc::new(held));
    }

    /// Takes over what another process or session of the server holds back. It counts while `life` does.
    pub(crate) fn fill_replica(&self, life: &Arc<()>, verdicts: &OfferVerdicts) {
        let mut replicas = self.replicas.lock();
        let own = Arc::downgrade(life);
        replicas.retain(|(known, _)| known.strong_count() > 0 && !known.ptr_eq(&own));
        let names: HeldNames = held_names(verdicts).collect();
        if !names.is_empty() {
            replicas.push((own, names));
        }
    }

    fn reason(&self, held: &HeldItems, kind: PinKind, name: &str) -> Option<HoldReason> {
        let key = (kind, name.to_owned());
        held.names.get(&key).copied().or_else(|| {
            let replicas = self.replicas.lock();
            let living = replicas.iter().filter(|(life, _)| life.strong_count() > 0);
            living.filter_map(|(_, names)| names.get(&key).copied()).next()
        })
    }

    /// The fault to answer with instead of calling; `None` when the call may be made.
    fn refuse(&self, call: &Call) -> Option<Fault> {
        let held = self.held.load();
        match call.method {
            Method::ToolsCall => self.refuse_tool(&held, call, &call.subject()?),
            Method::PromptsGet => self.refuse_prompt(&held, &call.subject()?),
            Method::ResourcesRead | Method::ResourcesSubscribe => self.refuse_address(&held, &call.subject()?),
            Method::Complete => match CompletionReference::of(&call.params)? {
                CompletionReference::Prompt(name) => self.refuse_prompt(&held, &name),
                CompletionReference::Resource(uri) => self.refuse_address(&held, &uri),
            },
            _ => None,
        }
    }

    fn refuse_tool(&self, held: &HeldItems, call: &Call, name: &str) -> Option<Fault> {
        if let Some(fault) = self.refuse_named(held, PinKind::Tool, name) {
            return Some(fault.on_tool(name));
        }
        let Some(arguments) = held.tools.get(name) else {
            // The server itself may accept other spellings of a name, by which its pin could be passed.
            return self.policy.mode.is_strict().then(|| not_found::tool(name));
        };
        let given = call.params.get("arguments").as_ref().and_then(JsonObject::of)?;
        let mut keys = given.members().iter().map(|member| given.key(*member));
        let unnamed = keys.find(|key| !arguments.takes(key))?;
        let message = format!("the pinned schema of {name:?} has no argument {unnamed:?}");
        let hint = "leave it out, or let `pin.strictArguments: false` pass what the schema would take";
        Some(Fault::new(FaultCode::InvalidParams, message).on_tool(name).with_hint(hint))
    }

    fn refuse_named(&self, held: &HeldItems, kind: PinKind, name: &str) -> Option<Fault> {
        self.reason(held, kind, name).map(|reason| changed(kind, name, reason))
    }

    /// As with tools, a strict pin wants the spelling of the list.
    fn refuse_prompt(&self, held: &HeldItems, name: &str) -> Option<Fault> {
        if let Some(fault) = self.refuse_named(held, PinKind::Prompt, name) {
            return Some(fault);
        }
        let is_listed = held.prompts.as_ref().is_some_and(|prompts| prompts.contains(name));
        (self.policy.mode.is_strict() && !is_listed).then(|| not_found::prompt(name))
    }

    /// An address is refused when it is held back itself, or when only a template that is held back leads to it. While
    /// something is held back, a strict pin also refuses every address that the server does not list: it may be another
    /// spelling of that. At other times such addresses pass, since tools may link to resources that are in no list.
    fn refuse_address(&self, held: &HeldItems, uri: &str) -> Option<Fault> {
        if let Some(reason) = self.reason(held, PinKind::Resource, uri) {
            return Some(changed(PinKind::Resource, uri, reason));
        }
        let fits = |template: &str| template == uri || UriTemplate::lenient(template).matches(uri);
        if held.templates.iter().any(|template| fits(template)) || held.resources.contains(uri) {
            return None;
        }
        let templates = held.names.iter().filter(|((kind, _), _)| *kind == PinKind::Template);
        let mut leading = templates.filter(|((_, template), _)| fits(template));
        let is_doubtful = || self.policy.mode.is_strict() && self.holds_addresses(held);
        match leading.next() {
            Some(((_, template), reason)) => Some(changed(PinKind::Template, template, *reason)),
            None => is_doubtful().then(|| changed(PinKind::Resource, uri, HoldReason::Unlisted)),
        }
    }

    fn holds_addresses(&self, held: &HeldItems) -> bool {
        let is_address = |(kind, _): &(PinKind, String)| matches!(kind, PinKind::Resource | PinKind::Template);
        held.names.keys().any(is_address) || {
            let replicas = self.replicas.lock();
            let mut living = replicas.iter().filter(|(life, _)| life.strong_count() > 0);
            living.any(|(_, names)| names.keys().any(is_address))
        }
    }

    /// Whether a call has to wait until the server's lists were judged.
    fn lacks_list_for(&self, call: &Call) -> bool {
        let names_something = matches!(
            call.method,
            Method::ToolsCall
                | Method::PromptsGet
                | Method::ResourcesRead
                | Method::ResourcesSubscribe
                | Method::Complete
        );
        let held = self.held.load();
        names_something && !(held.has_tools && held.prompts.is_some())
    }
}

fn held_names(verdicts: &OfferVerdicts) -> impl Iterator<Item = ((PinKind, String), HoldReason)> {
    verdicts.held().filter_map(|(kind, name, verdict)| {
        let reason = match verdict {
            ItemVerdict::Pass => return None,
            ItemVerdict::Keep(_) => HoldReason::Changed,
            ItemVerdict::Hide => HoldReason::Added,
        };
        Some(((kind, name.to_owned()), reason))
    })
}

fn named_arguments(tool: &tsugi_protocol::mcp::tool::ToolDescription, policy: PinPolicy) -> NamedArguments {
    if !policy.refuses_unnamed_arguments() {
        return NamedArguments::Open;
    }
    let schema = tool.input_schema().and_then(|schema| schema.to_lossy().ok());
    NamedArguments::of(&schema.unwrap_or_default())
}

fn changed(kind: PinKind, name: &str, reason: HoldReason) -> Fault {
    let why = match reason {
        HoldReason::Changed => "was changed by its server since it was pinned",
        HoldReason::Added => "is offered by its server and not pinned",
        HoldReason::Unlisted => "is in no list of its server, of which other resources are held back",
    };
    let fault = Fault::new(FaultCode::ToolChanged, format!("the {kind} {name:?} {why}"));
    fault.with_hint("`tsugi diff` shows it, `tsugi lock accept` pins it")
}

/// Asks the gate before every call.
#[derive(Clone)]
pub(crate) struct PinLayer {
    inner: Arc<dyn Answer>,
    server: Arc<str>,
    gate: Arc<PinGate>,
    list: Option<ListSource>,
}

impl PinLayer {
    pub(crate) fn new(inner: Arc<dyn Answer>, server: Arc<str>, gate: Arc<PinGate>, list: Option<ListSource>) -> Self {
        Self { inner, server, gate, list }
    }

    fn answer_judged(&self, call: Call) -> Reply {
        match self.gate.refuse(&call) {
            Some(fault) => Reply::fault(fault.on_server(&self.server)),
            None => self.inner.answer(call),
        }
    }
}

impl Answer for PinLayer {
    fn answer(&self, call: Call) -> Reply {
        let Some(list) = self.list.as_ref().filter(|_| self.gate.lacks_list_for(&call)) else {
            return self.answer_judged(call);
        };
        let (listing, layer) = (list(&call), self.clone());
        Reply::from_pending_reply(async move {
            match listing.await {
                // A server that does not tell what it offers cannot be held to anything, so nothing of it is used.
                Ok(()) if layer.gate.lacks_list_for(&call) && layer.gate.policy.mode.is_strict() => {
                    let fault = Fault::new(FaultCode::ToolChanged, "what the server offers is not known yet");
                    Reply::fault(fault.on_server(&layer.server).retryable(true))
                }
                Ok(()) => layer.answer_judged(call),
                Err(fault) => Reply::fault(fault),
            }
        })
    }
}
