//! The plain board's words, in both languages; the page with a program has its own.

/// Whom it is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoardLanguage {
    /// English
    En,
    /// Japanese
    Ja,
}

impl BoardLanguage {
    /// What the address asks for, or else the reader's program.
    pub(super) fn of(asked: Option<&str>, accepts: &str) -> Self {
        let first = asked.unwrap_or_else(|| accepts.split([',', ';', '-']).next().unwrap_or_default());
        if first.trim().eq_ignore_ascii_case("ja") { Self::Ja } else { Self::En }
    }

    pub(super) fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Ja => "ja",
        }
    }

    /// The word for something; the thing itself where there is none.
    pub(super) fn say(self, word: &str) -> &str {
        let found = WORDS.iter().find(|(key, _, _)| *key == word);
        found.map_or(word, |(_, english, japanese)| match self {
            Self::En => english,
            Self::Ja => japanese,
        })
    }
}

const WORDS: &[(&str, &str, &str)] = &[
    ("board", "Board", "ボード"),
    (
        "live",
        "The live page, where things can be changed, needs JavaScript.",
        "変更もできるライブ画面には JavaScript が必要です。",
    ),
    ("live.open", "Open the live page", "ライブ画面を開く"),
    ("as of", "As of", "時点"),
    ("projects", "Projects", "プロジェクト"),
    ("no projects", "No projects yet.", "プロジェクトがまだありません。"),
    (
        "paused",
        "This project is paused: nothing new is begun.",
        "このプロジェクトは一時停止中です。新しい作業は始まりません。",
    ),
    ("archived", "This project is archived.", "このプロジェクトはアーカイブ済みです。"),
    ("needs", "Needs you", "あなたの対応待ち"),
    ("nothing needs", "Nothing waits for you.", "対応待ちはありません。"),
    ("kind.review", "review", "レビュー"),
    ("kind.blocked", "blocked", "ブロック"),
    ("kind.handoff", "handoff", "引き継ぎ"),
    ("kind.cancelled", "cancelled prerequisite", "前提の取り消し"),
    ("kind.approval", "approval", "承認"),
    ("kind.expired", "agent gone", "応答なし"),
    ("waits for", "waits for", "待機："),
    ("agents", "Agents now", "稼働中のエージェント"),
    ("no agents", "No agent is at work.", "作業中のエージェントはいません。"),
    ("agent", "Agent", "エージェント"),
    ("client", "Client", "クライアント"),
    ("tasks", "Tasks", "タスク"),
    ("since", "Since", "開始"),
    ("heard", "Last activity", "最終応答"),
    ("lease", "Lease", "確保期限"),
    ("lease.good", "runs until", "有効"),
    ("lease.low", "runs out soon:", "まもなく期限切れ"),
    ("lease.gone", "ran out", "期限切れ"),
    ("checkpoint", "Checkpoint", "チェックポイント"),
    ("holds nothing", "holds nothing", "担当なし"),
    ("filter", "Filter", "絞り込み"),
    ("text", "Text", "文字列"),
    ("label", "Label", "ラベル"),
    ("priority", "Priority", "優先度"),
    ("all", "all", "すべて"),
    ("ready only", "Hide what is not ready", "着手できないものを隠す"),
    ("show", "Show", "表示"),
    ("more", "more", "件の続きあり"),
    ("done days", "of the last 7 days", "直近 7 日"),
    ("empty", "Nothing here.", "ありません。"),
    ("backlog", "Backlog", "バックログ"),
    ("todo", "To do", "未着手"),
    ("in_progress", "In progress", "進行中"),
    ("review", "Review", "レビュー"),
    ("blocked", "Blocked", "ブロック中"),
    ("done", "Done", "完了"),
    ("cancelled", "Cancelled", "取り消し"),
    ("critical", "critical", "最優先"),
    ("high", "high", "高"),
    ("medium", "medium", "中"),
    ("low", "low", "低"),
    ("active", "active", "稼働中"),
    ("disconnected", "disconnected", "切断"),
    ("not ready", "not ready", "着手不可"),
    ("sign in", "Sign in", "サインイン"),
    ("who", "This gateway asks for a key.", "このゲートウェイではキーが必要です。"),
    ("key", "Key", "キー"),
    ("wrong key", "This key is not known here.", "このキーは登録されていません。"),
    (
        "no board",
        "There is no board here, or your key does not see it.",
        "ボードがないか、このキーでは閲覧できません。",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_wins_over_what_the_program_prefers() {
        assert_eq!(BoardLanguage::of(None, "ja-JP,ja;q=0.9,en;q=0.5"), BoardLanguage::Ja);
        assert_eq!(BoardLanguage::of(None, "en-GB,ja;q=0.9"), BoardLanguage::En);
        assert_eq!(BoardLanguage::of(Some("en"), "ja"), BoardLanguage::En);
        assert_eq!(BoardLanguage::of(None, ""), BoardLanguage::En);
    }

    #[test]
    fn every_word_is_there_once_and_in_both_languages() {
        for (at, (key, english, japanese)) in WORDS.iter().enumerate() {
            assert!(!english.is_empty() && !japanese.is_empty(), "{key}");
            assert!(!WORDS[at + 1..].iter().any(|(other, _, _)| other == key), "{key} twice");
        }
        assert_eq!(BoardLanguage::En.say("something new"), "something new");
    }
}
