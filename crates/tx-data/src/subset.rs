//! Subsets of a corpus that represent it.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Selects `count` of `items`, in their order, so that the lengths of the subset are distributed as those of all
/// items; all of them if there are not more.
///
/// The items are sorted by `length` and divided into `count` strata of equal size. One item of each is drawn with
/// `seed`: stratified sampling with proportionate allocation. The subset of a sorted corpus is as good as
/// that of a shuffled one.
pub fn stratified<T>(
    items: Vec<T>,
    count: usize,
    seed: u64,
    length: impl Fn(&T) -> usize,
) -> Vec<T> {
    let all = items.len();
    if all <= count {
        return items;
    }
    let mut order: Vec<usize> = (0..all).collect();
    order.sort_by_cached_key(|&index| length(&items[index]));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut selected = vec![false; all];
    for stratum in 0..count {
        let bounds = stratum * all / count..(stratum + 1) * all / count;
        selected[order[random.random_range(bounds)]] = true;
    }
    items
        .into_iter()
        .zip(selected)
        .filter_map(|(item, selected)| selected.then_some(item))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_corpus_is_its_own_subset() {
        let items = vec![3, 1, 2];
        for count in [3, 4, usize::MAX] {
            assert_eq!(stratified(items.clone(), count, 1, |&item| item), items);
        }
        assert_eq!(stratified(items, 0, 1, |&item| item), Vec::<usize>::new());
    }

    /// Lengths 0 to 999, sorted or in another order: one of each ten consecutive lengths.
    #[test]
    fn each_stratum_has_one_item() {
        let sorted: Vec<usize> = (0..1000).collect();
        let mixed: Vec<usize> = (0..1000).map(|index| index * 387 % 1000).collect();
        for items in [sorted, mixed] {
            let mut subset = stratified(items.clone(), 100, 7, |&item| item);
            assert_eq!(subset, stratified(items.clone(), 100, 7, |&item| item));
            assert_ne!(subset, stratified(items.clone(), 100, 8, |&item| item));
            let places: Vec<_> =
                subset.iter().map(|item| items.iter().position(|other| other == item)).collect();
            assert!(places.is_sorted());
            subset.sort_unstable();
            let strata: Vec<usize> = subset.iter().map(|item| item / 10).collect();
            assert_eq!(strata, (0..100).collect::<Vec<_>>());
        }
    }

    /// Ten items in four strata: indices 0 and 1, 2 to 4, 5 and 6, 7 to 9.
    #[test]
    fn strata_differ_in_size_by_one() {
        for seed in 0..20 {
            let subset = stratified((0..10).collect(), 4, seed, |&item: &usize| item);
            let strata: Vec<usize> =
                subset.iter().map(|item| [0, 0, 1, 1, 1, 2, 2, 3, 3, 3][*item]).collect();
            assert_eq!(strata, [0, 1, 2, 3]);
        }
    }
}
