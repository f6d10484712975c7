//! Short ways to write rules and questions.

use std::net::IpAddr;

use tsugi_policy::arguments::CallArguments;
use tsugi_policy::question::{
    NameKind, PolicyAction, PolicyQuestion, PrincipalFacts, QuestionContext, ResourceFacts, ResourceHints,
};
use tsugi_policy::set::{PolicySet, PolicySource};

pub(crate) fn load(rules: &str) -> Result<PolicySet, Vec<String>> {
    let text = format!("rules:\n{rules}\n...\n");
    PolicySet::load(vec![PolicySource { file: "p.yaml".into(), text }])
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

pub(crate) fn set(rules: &str) -> PolicySet {
    load(rules).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Who asks, about what, and how; everything has a usual value.
pub(crate) struct Asked {
    pub(crate) principal: PrincipalFacts,
    pub(crate) action: PolicyAction,
    pub(crate) kind: NameKind,
    pub(crate) server: &'static str,
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    pub(crate) hints: ResourceHints,
    pub(crate) arguments: CallArguments,
    pub(crate) address: Option<IpAddr>,
    pub(crate) now: i64,
    pub(crate) face: &'static str,
    pub(crate) is_pinned: bool,
}

impl Asked {
    /// A call of `files/NAME` by alice.
    pub(crate) fn call(name: &str) -> Self {
        Self {
            principal: PrincipalFacts {
                identity: "subject:corp:alice".to_owned(),
                role: "user",
                groups: vec!["dev".to_owned()],
                tenant: "acme".to_owned(),
                issuer: "corp".to_owned(),
                ..PrincipalFacts::default()
            },
            action: PolicyAction::CallTool,
            kind: NameKind::Tool,
            server: "files",
            name: name.to_owned(),
            tags: Vec::new(),
            hints: ResourceHints::default(),
            arguments: CallArguments::read(None),
            address: None,
            now: 0,
            face: "mcp",
            is_pinned: false,
        }
    }

    pub(crate) fn read(uri: &str) -> Self {
        Self { action: PolicyAction::ReadResource, kind: NameKind::Address, ..Self::call(uri) }
    }

    pub(crate) fn see(name: &str) -> Self {
        Self { action: PolicyAction::See, arguments: CallArguments::Absent, ..Self::call(name) }
    }

    pub(crate) fn with(mut self, arguments: &str) -> Self {
        self.arguments = CallArguments::read(Some(arguments));
        self
    }

    pub(crate) fn by(mut self, identity: &str) -> Self {
        self.principal.identity = identity.to_owned();
        self
    }

    pub(crate) fn question(&self) -> PolicyQuestion<'_> {
        PolicyQuestion {
            principal: &self.principal,
            action: self.action,
            resource: ResourceFacts {
                server: self.server,
                name: &self.name,
                kind: self.kind,
                tags: &self.tags,
                hints: self.hints,
                is_pinned: self.is_pinned,
            },
            context: QuestionContext {
                arguments: &self.arguments,
                face: self.face,
                era: "modern",
                address: self.address,
                now: self.now,
            },
        }
    }

    /// `permitted NAME`, `forbidden NAME` and so on.
    pub(crate) fn told(&self, set: &PolicySet) -> String {
        let decision = set.decide(&self.question());
        let error = decision.error.map(|error| format!(": {error}")).unwrap_or_default();
        format!("{} ({}){error}", decision.verdict.as_str(), set.decided_by(decision.verdict))
    }

    pub(crate) fn is_permitted(&self, set: &PolicySet) -> bool {
        set.decide(&self.question()).verdict.is_permitted()
    }
}
