//! Calls that are submitted to a pool, on the packed engine.

use std::{
    sync::{Mutex, mpsc},
    time::Duration,
};

use super::{languages::multilingual, *};
use crate::{LanguagePlacement, Observer, Pool};

/// Numbers of texts of batches. The first batch waits until it is released.
struct Batches {
    released: Mutex<mpsc::Receiver<()>>,
    sizes: Mutex<Vec<usize>>,
}

impl Observer for Batches {
    fn started(&self, waits: &[Duration]) {
        let mut sizes = self.sizes.lock().unwrap();
        sizes.push(waits.len());
        if sizes.len() == 1 {
            self.released.lock().unwrap().recv().unwrap();
        }
    }

    fn ended(&self, _duration: Duration) {}
}

type Results = Arc<Mutex<Vec<(usize, Translation)>>>;

/// Submits texts, and returns where their translations arrive.
fn submit(translator: &Translator, texts: &[&str], options: &SearchOptions) -> Results {
    let lines: Vec<Line<'_>> =
        texts.iter().zip(0..).map(|(text, number)| Line::new(text, number)).collect();
    let (results, never) = (Results::default(), Cancellation::new());
    let received = results.clone();
    let receive = move |ready: Vec<(usize, Result<Translation, Failure>)>| {
        let ready = ready.into_iter().map(|(index, result)| (index, result.unwrap()));
        received.lock().unwrap().extend(ready);
    };
    translator.submit(&lines, options, Priority::Interactive, &never, receive).unwrap();
    results
}

fn sorted(results: &Results) -> Vec<Translation> {
    let mut results = results.lock().unwrap().clone();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, translation)| translation).collect()
}

/// Texts from and to several languages are in one batch, those with other options in another one. All
/// have the translations that they have alone.
#[test]
fn a_batch_has_texts_of_several_languages_with_one_set_of_options() {
    let (release, released) = mpsc::channel();
    let batches = Arc::new(Batches { released: released.into(), sizes: Mutex::default() });
    let pool = Pool::new(1).with_observer(batches.clone());
    let both = multilingual(LanguagePlacement::BothSides);
    let to = |source, target| both.clone().with_languages(Some(source), Some(target)).unwrap();
    let pairs = [to("en", "de"), to("en", "fr"), to("de", "en")];
    let options = both.options();
    let greedy = SearchOptions::greedy();
    let texts = ["one two", "  ", "three one two one"];
    let alone = pairs.clone().map(|translator| translator.translate_batch(&texts).unwrap());
    let alone_greedy =
        pairs[0].translate_batch_with(&texts, &greedy, &Cancellation::new()).unwrap();
    assert!(alone[0] != alone[1] && alone[0] != alone_greedy);

    let shared = pairs.map(|translator| translator.with_pool(&pool));
    let first = submit(&shared[0], &["one"], options);
    while pool.waiting() > 0 {
        std::thread::yield_now();
    }
    let found = shared.each_ref().map(|translator| submit(translator, &texts, options));
    let other = submit(&shared[0], &texts, &greedy);
    assert_eq!(*found[0].lock().unwrap(), [(1, Translation::default())], "without words");
    release.send(()).unwrap();
    pool.wait();
    assert_eq!(sorted(&first).len(), 1);
    assert_eq!(found.each_ref().map(sorted), alone);
    assert_eq!(sorted(&other), alone_greedy);
    assert_eq!(*batches.sizes.lock().unwrap(), [1, 6, 2]);
}

#[test]
fn a_submitted_call_is_checked_at_once() {
    let translator = multilingual(LanguagePlacement::BothSides);
    let submit = |options: &SearchOptions| {
        let (lines, never) = ([Line::new("one", 0)], Cancellation::new());
        translator.submit(&lines, options, Priority::Bulk, &never, |_| panic!("no result"))
    };
    let none = SearchOptions { beam: 0, ..SearchOptions::default() };
    assert!(matches!(submit(&none), Err(InferError::Search { .. })));
    let found = submit(&SearchOptions::default());
    assert!(matches!(found, Err(InferError::LanguageNeeded { .. })), "{found:?}");
}
