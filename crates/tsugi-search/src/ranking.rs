//! How much each kind of evidence counts. The values were tuned on one half of four public sets.

use crate::document::FIELDS;

/// The numbers of the ranking. The default is what the gateway uses; others are for measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingWeights {
    /// Name, title, first sentence, rest of the description, parameter names, parameter descriptions, server.
    pub fields: [f32; FIELDS],
    /// How strongly a long field is discounted, from 0 (not at all) to 1, in the order of the fields.
    pub lengths: [f32; FIELDS],
    /// How soon further occurrences of a word stop counting.
    pub saturation: f32,
    /// What a synonym counts, compared with the word itself.
    pub synonym: f32,
    /// What a word of the same subject counts.
    pub subject: f32,
    /// The weight of a more general word than the one in the query.
    pub kind: f32,
    /// What a word of the query counts that most requests have.
    pub request_word: f32,
    /// How much a tool gains when the query has every word of its name, as a share of its score.
    pub name_share: f32,
    /// How much a tool that is called often may gain, as a share of its score.
    pub usage: f32,
}

impl Default for RankingWeights {
    fn default() -> Self {
        Self {
            fields: [3.9, 2.0, 1.8, 1.4, 1.2, 0.5, 0.7],
            lengths: [0.3, 0.3, 0.1, 0.5, 0.6, 0.5, 0.3],
            saturation: 1.5,
            synonym: 0.45,
            subject: 0.43,
            kind: 0.55,
            request_word: 0.55,
            name_share: 0.5,
            usage: 0.1,
        }
    }
}

/// The average length of each field over all tools.
pub(crate) struct FieldLengths([f32; FIELDS]);

impl FieldLengths {
    pub(crate) fn average<'a>(tools: impl Iterator<Item = &'a [u32; FIELDS]>) -> Self {
        let (mut sums, mut count) = ([0.0_f32; FIELDS], 0.0_f32);
        for lengths in tools {
            count += 1.0;
            sums.iter_mut().zip(lengths).for_each(|(sum, length)| *sum += *length as f32);
        }
        Self(sums.map(|sum| (sum / count.max(1.0)).max(1.0)))
    }

    /// The occurrences of a word in one tool as one number: BM25F's weighted and length-normalized frequency.
    pub(crate) fn frequency(&self, counts: &[u16; FIELDS], lengths: &[u32; FIELDS], weights: &RankingWeights) -> f32 {
        let of = |field: usize| {
            let discount = weights.lengths[field];
            let length = 1.0 - discount + discount * lengths[field] as f32 / self.0[field];
            weights.fields[field] * f32::from(counts[field]) / length
        };
        (0..FIELDS).filter(|field| counts[*field] > 0).map(of).sum()
    }
}

/// The weight of a word by its rarity: how many of all tools have it.
pub(crate) fn rarity(having: usize, all: usize) -> f32 {
    let (having, all) = (having as f32, all as f32);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}
