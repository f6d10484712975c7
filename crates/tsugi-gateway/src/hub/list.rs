//! The lists that servers have: what each is called in results, and who asks for it.

use tsugi_policy::question::NameKind;
use tsugi_protocol::mcp::Method;

/// One of the lists that servers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub(super) const ALL: [ListKind; 4] =
        [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];

    /// How changes of them are told.
    pub(super) const CHANGES: [Method; 3] = [Method::ToolsChanged, Method::PromptsChanged, Method::ResourcesChanged];

    /// The list that a method asks for; `None` for a method that asks for none.
    pub(super) fn of(method: &Method) -> Option<Self> {
        match method {
            Method::ToolsList => Some(ListKind::Tools),
            Method::PromptsList => Some(ListKind::Prompts),
            Method::ResourcesList => Some(ListKind::Resources),
            Method::TemplatesList => Some(ListKind::Templates),
            _ => None,
        }
    }

    /// Under which name its entries stand in a result.
    pub(super) fn key(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resourceTemplates",
        }
    }

    /// What kind of names its entries have.
    pub(super) fn name_kind(self) -> NameKind {
        match self {
            ListKind::Tools => NameKind::Tool,
            ListKind::Prompts => NameKind::Prompt,
            ListKind::Resources | ListKind::Templates => NameKind::Address,
        }
    }

    /// Who asks for it.
    pub(super) fn method(self) -> Method {
        match self {
            ListKind::Tools => Method::ToolsList,
            ListKind::Prompts => Method::PromptsList,
            ListKind::Resources => Method::ResourcesList,
            ListKind::Templates => Method::TemplatesList,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_is_asked_for_by_its_method_and_no_other_method_asks_for_one() {
        for list in ListKind::ALL {
            assert_eq!(ListKind::of(&list.method()), Some(list));
        }
        assert_eq!(ListKind::of(&Method::ToolsCall), None);
    }
}
