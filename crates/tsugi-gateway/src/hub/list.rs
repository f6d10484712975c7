//! The lists that servers have: what each is called in results, and who asks for it.

use tsugi_protocol::mcp::Method;

/// One of the lists that servers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    /// All of them.
    pub(super) const ALL: [List; 4] = [List::Tools, List::Prompts, List::Resources, List::Templates];

    /// How changes of them are told.
    pub(super) const CHANGES: [Method; 3] = [Method::ToolsChanged, Method::PromptsChanged, Method::ResourcesChanged];

    /// The list that a method asks for; `None` for a method that asks for none.
    pub(super) fn of(method: &Method) -> Option<Self> {
        match method {
            Method::ToolsList => Some(List::Tools),
            Method::PromptsList => Some(List::Prompts),
            Method::ResourcesList => Some(List::Resources),
            Method::TemplatesList => Some(List::Templates),
            _ => None,
        }
    }

    /// Under which name its entries stand in a result.
    pub(super) fn key(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        }
    }

    /// Who asks for it.
    pub(super) fn method(self) -> Method {
        match self {
            List::Tools => Method::ToolsList,
            List::Prompts => Method::PromptsList,
            List::Resources => Method::ResourcesList,
            List::Templates => Method::TemplatesList,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_is_asked_for_by_its_method_and_no_other_method_asks_for_one() {
        for list in List::ALL {
            assert_eq!(List::of(&list.method()), Some(list));
        }
        assert_eq!(List::of(&Method::ToolsCall), None);
    }
}
