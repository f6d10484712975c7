//! Finds what would make a condition fail or never hold, before it is used: unknown names, comparisons that cannot be
//! true, and expressions that could take long.

use std::collections::HashSet;

use cel::Program;
use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::network;
use super::variables::{FIELDS, FieldKind, ROOTS, field};
use crate::condition::{ConditionProblem, ConditionReads};
use crate::problem::suggest;
use crate::rule::RuleEffect;

/// How deep an expression may be nested: evaluating one takes stack.
const DEEPEST: usize = 64;

/// Functions that a condition may call.
const FUNCTIONS: [&str; 13] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "type",
    "dyn",
    "bytes",
    network::NAME,
];

const OPERATORS: [&str; 20] = [
    op::CONDITIONAL,
    op::LOGICAL_AND,
    op::LOGICAL_OR,
    op::LOGICAL_NOT,
    op::SUBSTRACT,
    op::ADD,
    op::MULTIPLY,
    op::DIVIDE,
    op::MODULO,
    op::EQUALS,
    op::NOT_EQUALS,
    op::GREATER_EQUALS,
    op::LESS_EQUALS,
    op::GREATER,
    op::LESS,
    op::NEGATE,
    op::INDEX,
    op::NOT_STRICTLY_FALSE,
    op::IN,
    "__not_strictly_false__",
];

/// Names of types, for `type(x) == string`.
const TYPES: [&str; 9] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];

pub(super) struct ConditionCheck<'program> {
    program: &'program Program,
    effect: RuleEffect,
    problems: Vec<ConditionProblem>,
    reads: ConditionReads,
    /// Variables of macros such as `exists`.
    locals: Vec<&'program str>,
    /// How many macros that go through a list surround the place.
    loops: usize,
    is_too_deep: bool,
    read_arguments: Vec<String>,
    tested_arguments: HashSet<String>,
}

impl<'program> ConditionCheck<'program> {
    /// What a condition reads, or everything that is wrong with it.
    pub(super) fn run(program: &'program Program, effect: RuleEffect) -> Result<ConditionReads, Vec<ConditionProblem>> {
        let mut check = Self {
            program,
            effect,
            problems: Vec::new(),
            reads: ConditionReads::default(),
            locals: Vec::new(),
            loops: 0,
            is_too_deep: false,
            read_arguments: Vec::new(),
            tested_arguments: HashSet::new(),
        };
        let root = program.expression();
        let kind = check.walk(root, 0);
        if let Expr::Literal(LiteralValue::Boolean(value)) = &root.expr {
            let message = match value.inner() {
                true => "the condition always holds: leave `when` out",
                false => "the condition never holds, so the rule can never match",
            };
            check.problem(root, message, None);
        } else if !matches!(kind, FieldKind::Flag | FieldKind::Dynamic) {
            check.problem(
                root,
                "the condition is neither true nor false",
                Some("compare it with something".to_owned()),
            );
        }
        let Self { problems, mut reads, read_arguments, tested_arguments, .. } = check;
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut unguarded: Vec<String> = read_arguments;
        unguarded.retain(|path| !tested_arguments.iter().any(|tested| is_within(path, tested)));
        unguarded.sort();
        unguarded.dedup();
        reads.unguarded = unguarded;
        Ok(reads)
    }

    fn problem(&mut self, node: &IdedExpr, message: impl Into<String>, hint: Option<String>) {
        let offset = self.program.source_info().offset_for(node.id).map_or(0, |(start, _)| start as usize);
        self.problems.push(ConditionProblem { offset, message: message.into(), hint });
    }

    fn walk(&mut self, node: &'program IdedExpr, depth: usize) -> FieldKind {
        if depth > DEEPEST {
            // Reported once: what is below is not looked at.
            if !std::mem::replace(&mut self.is_too_deep, true) {
                self.problem(node, format!("the condition is nested more than {DEEPEST} deep"), None);
            }
            return FieldKind::Dynamic;
        }
        match &node.expr {
            Expr::Unspecified => FieldKind::Dynamic,
            Expr::Literal(literal) => literal_kind(literal),
            Expr::Ident(name) => self.ident(node, name),
            Expr::Select(select) => self.select(node, select, depth),
            Expr::Call(call) => self.call(node, call, depth),
            Expr::List(list) => {
                list.elements.iter().for_each(|element| _ = self.walk(element, depth + 1));
                FieldKind::TextList
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.walk(&entry.key, depth + 1);
                        self.walk(&entry.value, depth + 1);
                    }
                }
                FieldKind::Dynamic
            }
            Expr::Struct(of) => {
                self.problem(node, format!("there is no type `{}`", of.type_name), None);
                FieldKind::Dynamic
            }
            Expr::Comprehension(comprehension) => self.comprehension(node, comprehension, depth),
        }
    }

    fn ident(&mut self, node: &IdedExpr, name: &str) -> FieldKind {
        if self.locals.contains(&name) || TYPES.contains(&name) {
            return FieldKind::Dynamic;
        }
        if let Some(kind) = field(name) {
            return kind;
        }
        if ROOTS.contains(&name) {
            let hint = format!("name one of its fields: {}", fields_of(name).join(", "));
            self.problem(node, format!("`{name}` cannot be used as a whole"), Some(hint));
            return FieldKind::Dynamic;
        }
        let known = ROOTS.iter().copied().chain(self.locals.iter().copied());
        // A field without what it belongs to is the usual mistake.
        let owner = FIELDS.iter().find(|(field, _)| field.rsplit('.').next() == Some(name));
        let hint = owner.map(|(field, _)| format!("did you mean `{field}`?")).or_else(|| suggest(name, known));
        let hint = hint.unwrap_or_else(|| format!("there are {}", ROOTS.join(", ")));
        self.problem(node, format!("there is no variable `{name}`"), Some(hint));
        FieldKind::Dynamic
    }

    fn select(&mut self, node: &'program IdedExpr, select: &'program SelectExpr, depth: usize) -> FieldKind {
        let Some(path) = self.path(select) else {
            self.walk(&select.operand, depth + 1);
            return FieldKind::Dynamic;
        };
        if path.strip_prefix("context.arguments.").is_some_and(|rest| self.argument(rest, select.test)) {
            return if select.test { FieldKind::Flag } else { FieldKind::Dynamic };
        }
        let Some(kind) = field(&path) else {
            let known = FIELDS.iter().map(|(name, _)| *name);
            let root = path.split('.').next().unwrap_or_default();
            let hint = suggest(&path, known).unwrap_or_else(|| format!("there are {}", fields_of(root).join(", ")));
            self.problem(node, format!("there is no field `{path}`"), Some(hint));
            return FieldKind::Dynamic;
        };
        if select.test {
            let hint = "what is not known is empty: compare it with `\"\"`, `[]` or `0`".to_owned();
            self.problem(node, format!("`{path}` is always there, so `has` says nothing"), Some(hint));
            return FieldKind::Flag;
        }
        self.read(node, &path);
        kind
    }

    fn read(&mut self, node: &IdedExpr, path: &str) {
        match path {
            // A list has no arguments that could be too large, either.
            "context.arguments" | "context.truncated" => self.reads.arguments = true,
            "context.address" => self.reads.address = true,
            "context.now" => self.reads.clock = true,
            "resource.pinned" => self.reads.pinned = true,
            "principal.role" | "principal.groups" | "principal.scopes" | "principal.authTime" => {
                self.reads.credential = true;
            }
            "resource.name" if self.effect == RuleEffect::Forbid => {
                let hint = "write the names into `resources`, where they hold for every spelling".to_owned();
                self.problem(node, "a rule that forbids must not compare `resource.name`", Some(hint));
            }
            _ => {}
        }
    }

    /// Notes that an argument is read, or that its presence is tested.
    fn argument(&mut self, path: &str, is_test: bool) -> bool {
        self.reads.arguments = true;
        if is_test {
            self.tested_arguments.insert(path.to_owned());
        } else {
            self.read_arguments.push(path.to_owned());
        }
        true
    }

    /// The whole name that a selection spells, if it begins with one of ours.
    fn path(&self, select: &SelectExpr) -> Option<String> {
        let mut segments = vec![select.field.as_str()];
        let mut operand = &select.operand.expr;
        loop {
            match operand {
                Expr::Ident(name) if self.locals.contains(&name.as_str()) => return None,
                Expr::Ident(name) if ROOTS.contains(&name.as_str()) => {
                    segments.push(name);
                    segments.reverse();
                    return Some(segments.join("."));
                }
                Expr::Select(inner) if !inner.test => {
                    segments.push(&inner.field);
                    operand = &inner.operand.expr;
                }
                _ => return None,
            }
        }
    }

    fn call(&mut self, node: &'program IdedExpr, call: &'program CallExpr, depth: usize) -> FieldKind {
        let name = call.func_name.as_str();
        if !OPERATORS.contains(&name) && !FUNCTIONS.contains(&name) {
            let hint = match name {
                "matches" => Some("there are no regular expressions: use startsWith, endsWith or contains".to_owned()),
                _ => suggest(name, FUNCTIONS),
            };
            self.problem(node, format!("there is no function `{name}`"), hint);
        }
        if name == op::INDEX && self.indexed_argument(call) {
            return FieldKind::Dynamic;
        }
        if let Some(target) = call.target.as_deref() {
            self.walk(target, depth + 1);
        }
        let kinds: Vec<FieldKind> = call.args.iter().map(|argument| self.walk(argument, depth + 1)).collect();
        match (name, call.args.as_slice()) {
            (op::EQUALS | op::NOT_EQUALS, [left, right]) => {
                self.compare(node, kinds[0], kinds[1]);
                self.compare_words(kinds[0], right);
                self.compare_words(kinds[1], left);
            }
            (op::IN, [_, right]) => self.membership(node, kinds[0], (right, kinds[1])),
            (network::NAME, [_, network]) => self.network(network),
            _ => {}
        }
        result_kind(name)
    }

    /// Notes `context.arguments["name"]`.
    fn indexed_argument(&mut self, call: &CallExpr) -> bool {
        let [operand, index] = call.args.as_slice() else { return false };
        let (Expr::Select(select), Expr::Literal(LiteralValue::String(key))) = (&operand.expr, &index.expr) else {
            return false;
        };
        let path = self.path(select);
        let inner = path.as_deref().and_then(|path| match path {
            "context.arguments" => Some(key.inner().to_owned()),
            _ => path.strip_prefix("context.arguments.").map(|path| format!("{path}.{}", key.inner())),
        });
        inner.is_some_and(|path| self.argument(&path, false))
    }

    /// Values of two kinds are never equal.
    fn compare(&mut self, node: &IdedExpr, left: FieldKind, right: FieldKind) {
        if let (Some(first), Some(second)) = (kind_word(left), kind_word(right))
            && first != second
        {
            self.problem(node, format!("{first} and {second} are never equal"), None);
        }
    }

    /// A field that is always one of a few words is never equal to another one.
    fn compare_words(&mut self, kind: FieldKind, other: &IdedExpr) {
        let FieldKind::Word(words) = kind else { return };
        if let Expr::Literal(LiteralValue::String(word)) = &other.expr
            && !words.contains(&word.inner())
        {
            let shown: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
            let hint = suggest(word.inner(), shown.iter().copied());
            let hint = hint.unwrap_or_else(|| format!("it is one of {}", shown.join(", ")));
            self.problem(other, format!("the field is never {:?}", word.inner()), Some(hint));
        }
    }

    fn membership(&mut self, node: &IdedExpr, left: FieldKind, right: (&IdedExpr, FieldKind)) {
        if !matches!(right.1, FieldKind::TextList | FieldKind::Dynamic) {
            self.problem(
                node,
                "`in` needs a list on its right",
                Some("for a part of a text use contains()".to_owned()),
            );
        }
        if let Expr::List(list) = &right.0.expr {
            list.elements.iter().for_each(|element| self.compare_words(left, element));
        }
    }

    fn network(&mut self, node: &IdedExpr) {
        match &node.expr {
            Expr::Literal(LiteralValue::String(text)) if network::is_network(text.inner()) => {}
            _ => {
                let hint = "write it as \"10.0.0.0/8\" or \"fd00::/8\"".to_owned();
                self.problem(node, format!("`{}` needs a network", network::NAME), Some(hint));
            }
        }
    }

    fn comprehension(
        &mut self,
        node: &'program IdedExpr,
        comprehension: &'program ComprehensionExpr,
        depth: usize,
    ) -> FieldKind {
        self.walk(&comprehension.iter_range, depth + 1);
        if self.loops > 0 {
            // Two would take the square of the number of arguments.
            self.problem(node, "one `exists`, `all`, `map` or `filter` inside another could take too long", None);
            return FieldKind::Dynamic;
        }
        let names = [Some(&comprehension.iter_var), comprehension.iter_var2.as_ref(), Some(&comprehension.accu_var)];
        for name in names.into_iter().flatten() {
            if ROOTS.contains(&name.as_str()) {
                self.problem(node, format!("`{name}` is taken: choose another name for the element"), None);
            }
            self.locals.push(name);
        }
        self.loops += 1;
        let inside =
            [&comprehension.accu_init, &comprehension.loop_cond, &comprehension.loop_step, &comprehension.result];
        inside.into_iter().for_each(|part| _ = self.walk(part, depth + 1));
        self.loops -= 1;
        let outer = self.locals.len() - 2 - usize::from(comprehension.iter_var2.is_some());
        self.locals.truncate(outer);
        FieldKind::Dynamic
    }
}

/// True when testing `tested` also says that `path` can be read without an error up to there.
fn is_within(path: &str, tested: &str) -> bool {
    path == tested || path.strip_prefix(tested).is_some_and(|rest| rest.starts_with('.'))
}

fn fields_of(root: &str) -> Vec<&'static str> {
    let is_of = |name: &&str| name.split('.').next() == Some(root);
    FIELDS.iter().map(|(name, _)| *name).filter(is_of).collect()
}

fn literal_kind(literal: &LiteralValue) -> FieldKind {
    match literal {
        LiteralValue::Boolean(_) => FieldKind::Flag,
        LiteralValue::String(_) => FieldKind::Text,
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => FieldKind::Number,
        LiteralValue::Bytes(_) | LiteralValue::Null => FieldKind::Dynamic,
    }
}

fn result_kind(function: &str) -> FieldKind {
    match function {
        op::EQUALS | op::NOT_EQUALS | op::GREATER | op::GREATER_EQUALS | op::LESS | op::LESS_EQUALS | op::IN => {
            FieldKind::Flag
        }
        op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT => FieldKind::Flag,
        "contains" | "startsWith" | "endsWith" | "bool" | network::NAME => FieldKind::Flag,
        "size" | "int" | "uint" | "double" | op::NEGATE => FieldKind::Number,
        "string" => FieldKind::Text,
        _ => FieldKind::Dynamic,
    }
}

/// What a value is in words; `None` when that is not known before it is read.
fn kind_word(kind: FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Text | FieldKind::Word(_) => Some("a text"),
        FieldKind::Number => Some("a number"),
        FieldKind::Flag => Some("true or false"),
        FieldKind::TextList => Some("a list"),
        FieldKind::Dynamic => None,
    }
}
