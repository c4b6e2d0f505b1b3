//! Prompts for a reference: texts in several scripts, conversations, drawn words or token ids.

use client::PromptSeed;
use verdict::plan::GoldenCase;

/// Name and text. Each stresses another part of a tokenizer, or of what assembles a text from tokens.
const TEXTS: [(&str, &str); 11] = [
    ("word", "Copy"),
    ("english", "The quick brown fox jumps over the lazy dog."),
    ("spaces", "  two  spaces,\ttabs\t and\n\n\nlines \n"),
    ("code", "fn main() { println!(\"{:?}\", [1, 22, 333]); }"),
    ("json", "{\"name\": \"Ada\", \"born\": 1815, \"tags\": ["),
    ("accents", "Zażółć gęślą jaźń — naïve café, Ångström"),
    ("cyrillic", "Съешь же ещё этих мягких французских булок"),
    ("cjk", "日本語のテキスト、中文和한국어"),
    ("emoji", "😀 family: 👩‍👩‍👧‍👦 flag: 🇳🇴 skin: 👍🏽"),
    ("arabic", "مرحبا بالعالم ١٢٣"),
    ("sum", "7 + 5 = 12. 9 + 8 = 17. 6 + 7 ="),
];

/// What one user says after another reply; every prefix of odd length is a conversation.
const TURNS: [&str; 5] = [
    "What is the capital of France?",
    "Paris.",
    "And of Norway?",
    "Oslo.",
    "Name one river that flows through each of them.",
];

/// Lengths of drawn prompts, about the sizes of kernels' tiles and caches' pages.
const LENGTHS: [u32; 10] = [1, 3, 7, 15, 16, 17, 33, 64, 100, 129];

/// The same for the same seed. `ids`: the range that prompts of token ids are drawn from, half-open; without it they
/// are words.
pub fn prompts(seed: u64, ids: Option<(u32, u32)>, max_tokens: u32) -> Vec<GoldenCase> {
    let case = |id: String| GoldenCase {
        id,
        max_tokens,
        ..GoldenCase::default()
    };
    let texts = TEXTS.iter().map(|(name, text)| GoldenCase {
        prompt_text: Some((*text).to_owned()),
        ..case(format!("text-{name}"))
    });
    let chats = [1, 3, 5].into_iter().map(|length| GoldenCase {
        messages: conversation(&TURNS[..length]),
        ..case(format!("chat-{length}"))
    });
    let seed = PromptSeed {
        session: seed,
        block: 0,
    };
    let drawn = (0..).zip(LENGTHS).map(|(index, length)| match ids {
        Some(range) => GoldenCase {
            prompt_ids: seed.ids("goldens", index, length, range),
            ..case(format!("ids-{length}"))
        },
        None => GoldenCase {
            prompt_text: Some(seed.words("goldens", index, length)),
            ..case(format!("words-{length}"))
        },
    });
    texts.chain(chats).chain(drawn).collect()
}

fn conversation(turns: &[&str]) -> Vec<(String, String)> {
    let roles = ["user", "assistant"].into_iter().cycle();
    let said = roles.zip(turns);
    said.map(|(role, text)| (role.to_owned(), (*text).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::prompts;
    use std::collections::BTreeSet;

    #[test]
    fn prompts_are_named_once_and_drawn_from_the_seed() {
        let of = |seed, ids| prompts(seed, ids, 8);
        let cases = of(1, None);
        let names: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert_eq!(cases, of(1, None));
        assert_ne!(cases, of(2, None));
        let drawn = of(1, Some((5, 9)));
        let ids: Vec<&Vec<u32>> = drawn.iter().map(|case| &case.prompt_ids).collect();
        assert!(ids.iter().any(|ids| ids.len() == 129));
        assert!(
            ids.iter()
                .all(|ids| ids.iter().all(|id| (5..9).contains(id)))
        );
        let chats: Vec<_> = cases.iter().filter(|c| !c.messages.is_empty()).collect();
        assert!(chats.iter().all(|c| c.messages.last().unwrap().0 == "user"));
    }
}
