//! Fingerprints of the data of a run, by which a resumed run recognizes changes.

use std::borrow::Borrow;

use sha2::{Digest, Sha256};
use tx_data::{DataError, PairAnnotation};
use tx_text::{SentencePair, hash::hexadecimal};

/// Fingerprints of the data of a run: numbers of pairs or documents, and hashes of their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    /// Fingerprint of the training data.
    pub training: String,
    /// Fingerprint of all validation data, used or not.
    pub validation: String,
    /// Fingerprint of the training pairs and the validation pairs in use, as in older checkpoints;
    /// empty for tasks that have no such checkpoints.
    pub together: String,
}

impl Fingerprints {
    /// Hashes documents.
    pub fn of_documents(training: &[String], validation: &[String]) -> Self {
        let hash = |documents: &[String]| {
            let mut hasher = Sha256::new();
            for document in documents {
                hasher.update(document);
                hasher.update([0]);
            }
            let hash = hexadecimal(&hasher.finalize());
            format!("{} documents, SHA-256 {hash}", documents.len())
        };
        let (training, validation) = (hash(training), hash(validation));
        Self { training, validation, together: String::new() }
    }

    /// Hashes pairs in memory; the first `used` validation pairs are in use.
    pub fn of_pairs<P: Borrow<SentencePair>>(
        training: impl Iterator<Item = Result<P, DataError>>,
        validation: &[SentencePair],
        used: usize,
    ) -> Result<Self, DataError> {
        let mut trained = Sha256::new();
        let mut training_pairs = 0;
        for pair in training {
            hash_pair(&mut trained, pair?.borrow());
            training_pairs += 1;
        }
        let hash_on = |mut hasher: Sha256, pairs: &[SentencePair]| {
            pairs.iter().for_each(|pair| hash_pair(&mut hasher, pair));
            hexadecimal(&hasher.finalize())
        };
        let used = &validation[..used.min(validation.len())];
        let together = hash_on(trained.clone(), used);
        let (all, hash) = (validation.len(), hash_on(Sha256::new(), validation));
        Ok(Self {
            training: format!(
                "{training_pairs} pairs, SHA-256 {}",
                hexadecimal(&trained.finalize())
            ),
            validation: format!("{all} pairs, SHA-256 {hash}"),
            together: format!("{training_pairs} + {} pairs, SHA-256 {together}", used.len()),
        })
    }
}

impl Fingerprints {
    /// Adds weights and word alignments to the fingerprint of the training data.
    pub fn with_annotations<'a>(
        mut self,
        annotations: impl Iterator<Item = &'a PairAnnotation>,
    ) -> Self {
        let mut annotations = annotations.peekable();
        if annotations.peek().is_none() {
            return self;
        }
        let mut hasher = Sha256::new();
        for PairAnnotation { weight, links } in annotations {
            hasher.update(weight.to_le_bytes());
            hasher.update((links.len() as u64).to_le_bytes());
            for link in links {
                hasher.update((link.source as u64).to_le_bytes());
                hasher.update((link.target as u64).to_le_bytes());
            }
        }
        let hash = hexadecimal(&hasher.finalize());
        self.training = format!("{}; annotations: SHA-256 {hash}", self.training);
        self
    }
}

fn hash_pair(hasher: &mut Sha256, pair: &SentencePair) {
    for side in [&pair.source, &pair.target] {
        hasher.update(side);
        hasher.update([0]);
    }
    // The end of a sentence of the context is not that of a side, so that no two corpora are the same.
    for sentence in &pair.context {
        hasher.update(sentence);
        hasher.update([1]);
    }
}

#[cfg(test)]
mod tests {
    use tx_data::Link;

    use super::*;

    /// Hashes computed with `printf 'a\0b\0' | sha256sum`.
    #[test]
    fn fingerprints_distinguish_training_and_validation_pairs() {
        let pair = |source: &str| SentencePair::new(source, "b");
        let of = |train: &str, valid: &[&str], used| {
            let valid: Vec<_> = valid.iter().map(|source| pair(source)).collect();
            Fingerprints::of_pairs([Ok(pair(train))].into_iter(), &valid, used).unwrap()
        };
        let one = of("a", &["c", "d"], 9);
        assert_eq!(
            one.training,
            "1 pairs, SHA-256 8fb20ef63ced4145fc2e983ffe597d1dcff39154c3bf21f0fa9dde6a0c50fdc9"
        );
        // The number of pairs in use changes the fingerprint of older checkpoints, and no other.
        let fewer = of("a", &["c", "d"], 1);
        assert_eq!((&one.training, &one.validation), (&fewer.training, &fewer.validation));
        assert_eq!(
            fewer.together,
            "1 + 1 pairs, SHA-256 f12a522924d59320033764a92e5f43905696b2d821fec24278515c2d77a81195"
        );
        let other = of("a", &["c", "e"], 1);
        assert_eq!(one.training, other.training);
        assert_ne!(one.validation, other.validation);
        assert_ne!(of("x", &["c"], 1).training, one.training);
    }

    /// Weight and links of pairs change the fingerprint; pairs without them have that of their text.
    #[test]
    fn annotations_are_part_of_the_fingerprint() {
        let pairs = || [Ok(SentencePair::new("a", "b"))].into_iter();
        let plain = Fingerprints::of_pairs(pairs(), &[], 0).unwrap();
        let of = |weight, links: &[Link]| {
            let annotation = PairAnnotation { weight, links: links.into() };
            plain.clone().with_annotations([annotation].iter()).training
        };
        let link = Link { source: 0, target: 0 };
        let found = [of(1.0, &[]), of(2.0, &[]), of(1.0, &[link]), of(1.0, &[link, link])];
        for (number, one) in found.iter().enumerate() {
            assert!(one.starts_with(&plain.training) && !found[..number].contains(one), "{one}");
        }
        assert_eq!(plain.clone().with_annotations([].iter()), plain);
    }

    /// Hashes computed with `printf 'a\\0' | sha256sum`.
    #[test]
    fn documents_have_fingerprints_of_both_parts() {
        let found = Fingerprints::of_documents(&["a".into()], &["b".into(), "c".into()]);
        assert_eq!(
            found.training,
            "1 documents, SHA-256 ffe9aaeaa2a2d5048174df0b80599ef0197ec024c4b051bc9860cff58ef7f9f3"
        );
        assert!(found.validation.starts_with("2 documents, SHA-256 "));
    }
}
