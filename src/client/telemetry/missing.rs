//! Sentences about sources that could not be read: one a source, at its first failure.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct Missing {
    sources: BTreeSet<String>,
    sentences: Vec<String>,
}

impl Missing {
    /// Keeps the sentence unless the source has one already.
    pub fn note(&mut self, source: &str, sentence: impl FnOnce() -> String) {
        if self.sources.insert(source.to_owned()) {
            self.sentences.push(sentence());
        }
    }

    pub fn into_sentences(self) -> Vec<String> {
        self.sentences
    }
}
