//! Random sampling of sentences; each construction and word is frequent enough to be learned.

mod talk;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::grammar::{
    FOR_SALE, ON_ORDER, Role, additions, aspects, attributes, clock_times, comparatives, findable,
    forces, may_stand_alone, nouns, object_role, openings, owners, personal_predicates, placed,
    predicates, pronoun_objects, rivals, subjects, surroundings, tense_words, tenses, themes,
    time_words, whereabouts,
};
use super::lexicon::{Adjective, Kind, NOUNS, Noun, PEOPLE, Position, SKIES, SPOTS, STATES, State};
use super::phrases::{OPENERS, Phrase};
use super::proper_nouns::{CITIES, COUNTRIES, LANGUAGES, NAMES};
use super::sentence::{
    Aspect, Being, Clause, Count, Determiner, Ending, Existence, Force, NounPhrase, Object, Place,
    Predicate, Pronoun, Sentence, Subject, Talk, Tense, Time, Utterance, Weather,
};
use super::verbs::{Auxiliary, Frame, Preposition, VERBS, Verb};

/// Variants of [`Sentence`] without their parts.
#[derive(Debug, Clone, Copy)]
enum Construction {
    Clause,
    Being,
    Comparison,
    Existence,
    Where,
    Cost,
    Wish,
    Weather,
    Talk,
}

/// Sampling weights of the constructions.
const CONSTRUCTIONS: &[(Construction, u32)] = &[
    (Construction::Clause, 760),
    (Construction::Being, 170),
    (Construction::Comparison, 40),
    (Construction::Existence, 65),
    (Construction::Where, 25),
    (Construction::Cost, 20),
    (Construction::Wish, 30),
    (Construction::Weather, 35),
    (Construction::Talk, 330),
];

/// Sampler of sentences.
pub(super) struct Draw {
    rng: ChaCha8Rng,
    /// Index of the next fixed phrase.
    turn: usize,
}

impl Draw {
    /// Creates a sampler with the random number generator `rng`.
    pub(super) fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, turn: 0 }
    }

    /// Samples a sentence with its surroundings as users type them; `None` as for
    /// [`sentence`](Self::sentence).
    pub(super) fn utterance(&mut self) -> Option<Utterance> {
        let sentence = self.sentence()?;
        let is_phrase = matches!(sentence, Sentence::Talk(Talk::Phrase(_)));
        // Small talk has little variety, so it gets openers and names more often.
        let (opened, addressed) = match sentence {
            Sentence::Talk(Talk::Phrase(_)) => (30, 30),
            Sentence::Talk(_) => (20, 15),
            _ => (3, 0),
        };
        let opener = if self.chance(opened) { self.pick(OPENERS) } else { None };
        // Prevents `Please, please.`
        let is_other = |it: &&'static Phrase| sentence != Sentence::Talk(Talk::Phrase(it));
        let opener = opener.filter(is_other);
        let addressee = if self.chance(addressed) { self.pick(NAMES) } else { None };
        let has_commas = self.chance(70);
        let is_contracted = self.chance(30);
        let (mark, exclamation, nothing) = if is_phrase { (40, 30, 30) } else { (89, 3, 8) };
        let ending = self.weighted(&[
            (Ending::Mark, mark),
            (Ending::Exclamation, if sentence.is_question() { 0 } else { exclamation }),
            (Ending::Nothing, nothing),
        ])?;
        Some(Utterance { opener, sentence, addressee, has_commas, is_contracted, ending })
    }

    /// Samples a sentence; `None` for a rare dead end (a choice without options), after which the
    /// caller samples again.
    pub(super) fn sentence(&mut self) -> Option<Sentence> {
        match self.weighted(CONSTRUCTIONS)? {
            Construction::Clause => self.clause().map(Sentence::Clause),
            Construction::Being => self.being().map(Sentence::Being),
            Construction::Comparison => self.comparison(),
            Construction::Existence => self.existence().map(Sentence::Existence),
            Construction::Where => {
                let what = if self.chance(75) {
                    let noun = self.one_of(&findable())?;
                    Subject::Phrase(self.phrase(noun, Role::Known)?)
                } else {
                    self.person()?
                };
                let past = self.chance(40).then(|| tense_words(Tense::Past));
                let past = past.and_then(|times| self.one_of(&times));
                Some(Sentence::Where { what, past })
            }
            Construction::Cost => {
                Some(Sentence::Cost { what: self.phrase_of(FOR_SALE, Role::Known)? })
            }
            Construction::Wish => {
                let what = self.phrase_of(ON_ORDER, Role::Ordered)?;
                let (is_plural, is_polite) = (self.chance(50), self.chance(60));
                Some(Sentence::Wish { what, is_plural, is_polite })
            }
            Construction::Weather => self.weather().map(Sentence::Weather),
            Construction::Talk => self.talk().map(Sentence::Talk),
        }
    }

    fn clause(&mut self) -> Option<Clause> {
        let weights: Vec<_> = VERBS.iter().map(|verb| (verb, verb_weight(verb))).collect();
        let verb = self.weighted(&weights)?;
        let weights: Vec<_> =
            aspects(verb).into_iter().map(|it| (it, aspect_weight(it, verb))).collect();
        let aspect = self.weighted(&weights)?;
        let weights: Vec<_> = forces(aspect)
            .iter()
            .map(|&force| (force, if force == Force::Stated { 56 } else { 22 }))
            .collect();
        let force = self.weighted(&weights)?;
        let agrees = aspect == Aspect::Past && verb.auxiliary == Auxiliary::Essere;
        let subject = self.subject(&subjects(verb), if agrees { 50 } else { 22 })?;
        let (mut object, mut place, mut extra) = (None, None, None);
        let alone = may_stand_alone(verb) && self.chance(15);
        let role = object_role(verb, aspect, force);
        match verb.frame {
            _ if alone => {}
            _ if verb.persons && self.chance(30) => {
                let of = match subject {
                    Subject::Pronoun(pronoun) => Some(pronoun),
                    Subject::Name(_) | Subject::Phrase(_) => None,
                };
                object = Some(Object::Pronoun(self.one_of(&pronoun_objects(verb, aspect, of))?));
            }
            Frame::Object(kinds) => object = Some(Object::Phrase(self.phrase_of(kinds, role)?)),
            Frame::Language(_) => {
                let language = self.pick(LANGUAGES)?;
                object = Some(Object::Language { language, is_little: self.chance(20) });
            }
            Frame::Gift(kinds) => {
                object = Some(Object::Phrase(self.phrase_of(kinds, role)?));
                extra = Some((Preposition::To, self.phrase_of(PEOPLE, Role::Complement)?));
            }
            Frame::Place { preposition, city } => {
                place = Some(self.place(preposition, city)?);
            }
        }
        if let Some(before) = verb.extra
            && self.chance(12)
        {
            let noun = self.one_of(&additions(before))?;
            extra = Some((before, self.phrase(noun, Role::Complement)?));
        }
        let optional = extra.is_some() && !matches!(verb.frame, Frame::Gift(_));
        let time = match self.weighted(&[(0, 58), (1, 28), (2, 14)])? {
            _ if optional => None,
            0 => None,
            1 => self.one_of(&time_words(aspect)),
            _ => self.one_of(&clock_times(aspect)),
        };
        let time_first = time.is_some() && force != Force::Asked && self.chance(50);
        Some(Clause { subject, aspect, force, verb, object, place, extra, time, time_first })
    }

    fn being(&mut self) -> Option<Being> {
        let (subject, predicate) = match self.weighted(&[(0, 54), (1, 24), (2, 11), (3, 11)])? {
            0 => self.described()?,
            1 => {
                let livings = nouns(&[Kind::Family, Kind::Person, Kind::Animal]);
                let subject = self.subject_in_role(&livings, 35, Role::Described)?;
                let state: &State = self.pick(STATES)?;
                let is_very = state.very.is_some() && self.chance(20);
                (subject, Predicate::State { state, is_very })
            }
            2 => {
                let subject = self.subject_in_role(&findable(), 70, Role::Known)?;
                (subject, Predicate::Spot(self.pick(SPOTS)?))
            }
            _ => self.placed()?,
        };
        let tense = if tenses(&predicate) == Tense::ALL { self.tense()? } else { Tense::Present };
        let force = self.force()?;
        let (time, time_first) = self.being_time(tense, force);
        Some(Being { subject, tense, force, predicate, time, time_first })
    }

    /// Samples a subject and an adjective.
    fn described(&mut self) -> Option<(Subject, Predicate)> {
        let (subject, adjectives) = if self.chance(32) {
            (self.person()?, personal_predicates())
        } else {
            let noun =
                if self.chance(45) { self.one_of(&nouns(PEOPLE))? } else { self.pick(NOUNS)? };
            (Subject::Phrase(self.phrase(noun, Role::Described)?), predicates(noun))
        };
        // These adjectives occur only as predicates.
        let weight = |it: &Adjective| if it.position == Position::Predicate { 3 } else { 1 };
        let weights: Vec<_> = adjectives.into_iter().map(|it| (it, weight(it))).collect();
        let adjective = self.weighted(&weights)?;
        Some((subject, Predicate::Adjective { adjective, is_very: self.chance(15) }))
    }

    /// Samples a subject and its location.
    fn placed(&mut self) -> Option<(Subject, Predicate)> {
        if self.chance(25) {
            return Some((self.person()?, Predicate::Place(self.place(Preposition::In, true)?)));
        }
        let noun = self.one_of(&placed())?;
        let (before, kind) = self.one_of(surroundings(noun))?;
        let subject = Subject::Phrase(self.phrase(noun, Role::Known)?);
        let place = self.phrase_of(&[kind], Role::Complement)?;
        Some((subject, Predicate::Place(Place::At(before, place))))
    }

    /// Samples a time for `to be`, and whether it opens the sentence.
    fn being_time(&mut self, tense: Tense, force: Force) -> (Option<Time>, bool) {
        let time = self.chance(40).then(|| tense_words(tense));
        let time = time.and_then(|times| self.one_of(&times));
        (time, time.is_some() && force != Force::Asked && self.chance(50))
    }

    fn comparison(&mut self) -> Option<Sentence> {
        let (subject, noun, rivals) = if self.chance(20) {
            (self.person()?, None, nouns(PEOPLE))
        } else {
            let noun = self.pick(NOUNS)?;
            (Subject::Phrase(self.phrase(noun, Role::Described)?), Some(noun), rivals(noun))
        };
        let rival = self.one_of(&rivals)?;
        let adjective = self.one_of(&comparatives(noun, rival))?;
        let than = self.phrase(rival, Role::Complement)?;
        Some(Sentence::Comparison { subject, adjective, than })
    }

    fn existence(&mut self) -> Option<Existence> {
        let noun = self.one_of(&themes())?;
        let (before, kind) = self.one_of(whereabouts(noun))?;
        let tense = self.tense()?;
        let force = self.force()?;
        let role = if force == Force::Denied { Role::DeniedTheme } else { Role::Theme };
        let theme = self.phrase(noun, role)?;
        let place = (before, self.phrase_of(&[kind], Role::Complement)?);
        Some(Existence { tense, force, theme, place })
    }

    fn weather(&mut self) -> Option<Weather> {
        let tense =
            self.weighted(&[(Tense::Present, 50), (Tense::Past, 25), (Tense::Future, 25)])?;
        let force = self.force()?;
        let (time, time_first) = self.being_time(tense, force);
        let sky = self.pick(SKIES)?;
        let place = if self.chance(40) { None } else { Some(self.place(Preposition::In, true)?) };
        Some(Weather { time, time_first, tense, force, sky, place })
    }

    fn place(&mut self, before: Preposition, city: bool) -> Option<Place> {
        match self.weighted(&[(0, 20), (1, 20), (2, 60)])? {
            0 if city => Some(Place::City(before, self.pick(CITIES)?)),
            1 if city => Some(Place::Country(before, self.pick(COUNTRIES)?)),
            _ => Some(Place::At(before, self.phrase_of(&[Kind::Place], Role::Complement)?)),
        }
    }

    fn subject(&mut self, nouns: &[&'static Noun], nouns_percent: u32) -> Option<Subject> {
        self.subject_in_role(nouns, nouns_percent, Role::Subject)
    }

    fn subject_in_role(
        &mut self,
        nouns: &[&'static Noun],
        nouns_percent: u32,
        role: Role,
    ) -> Option<Subject> {
        if self.chance(nouns_percent) {
            let noun = self.one_of(nouns)?;
            return Some(Subject::Phrase(self.phrase(noun, role)?));
        }
        self.person()
    }

    /// Samples a pronoun or, less often, a name.
    fn person(&mut self) -> Option<Subject> {
        if self.chance(8) {
            return Some(Subject::Name(self.pick(NAMES)?));
        }
        self.pronoun().map(Subject::Pronoun)
    }

    /// Samples persons with equal probability, so that every verb form occurs.
    fn pronoun(&mut self) -> Option<Pronoun> {
        let weights = Pronoun::ALL.map(|pronoun| match pronoun {
            Pronoun::He | Pronoun::She => (pronoun, 10),
            Pronoun::They => (pronoun, 11),
            _ => (pronoun, 15),
        });
        self.weighted(&weights)
    }

    fn tense(&mut self) -> Option<Tense> {
        self.weighted(&[(Tense::Present, 40), (Tense::Past, 30), (Tense::Future, 30)])
    }

    fn force(&mut self) -> Option<Force> {
        self.weighted(&[(Force::Stated, 46), (Force::Denied, 30), (Force::Asked, 24)])
    }

    fn phrase_of(&mut self, kinds: &[Kind], role: Role) -> Option<NounPhrase> {
        let noun = self.one_of(&nouns(kinds))?;
        self.phrase(noun, role)
    }

    fn phrase(&mut self, noun: &'static Noun, role: Role) -> Option<NounPhrase> {
        let adjective = if self.chance(32) { self.one_of(&attributes(noun, role)) } else { None };
        let owners = owners(noun, role);
        if !owners.is_empty() && self.chance(11) {
            let owner = self.one_of(&owners)?;
            let owner = Some(Box::new(self.phrase(owner, Role::Owner)?));
            let count = if self.chance(50) { Count::One } else { Count::Many };
            let determiner = Determiner::Definite;
            return Some(NounPhrase { determiner, count, adjective, noun, owner });
        }
        let weights: Vec<_> =
            openings(noun, role).into_iter().map(|it| (it, opening_weight(it))).collect();
        let (determiner, count) = self.weighted(&weights)?;
        Some(NounPhrase { determiner, count, adjective, noun, owner: None })
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100_u32) < percent
    }

    fn pick<T>(&mut self, table: &'static [T]) -> Option<&'static T> {
        let limit = u32::try_from(table.len()).ok().filter(|&limit| limit > 0)?;
        table.get(self.rng.random_range(0..limit) as usize)
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let limit = u32::try_from(list.len()).ok().filter(|&limit| limit > 0)?;
        list.get(self.rng.random_range(0..limit) as usize).copied()
    }

    /// Samples one of the options in proportion to its weight.
    fn weighted<T: Copy>(&mut self, options: &[(T, u32)]) -> Option<T> {
        let sum: u32 = options.iter().map(|&(_, weight)| weight).sum();
        if sum == 0 {
            return None;
        }
        let mut rest = self.rng.random_range(0..sum);
        options.iter().find_map(|&(option, weight)| {
            let found = rest < weight;
            rest = rest.saturating_sub(weight);
            found.then_some(option)
        })
    }
}

/// Weight of a verb. One verb alone teaches the contractions of `da`; a verb with few tenses has
/// fewer forms.
fn verb_weight(verb: &Verb) -> u32 {
    match verb.frame {
        Frame::Place { preposition: Preposition::From, .. } => 18,
        // Only their position distinguishes the two objects.
        Frame::Gift(_) => 18,
        _ if !verb.modal => 6,
        _ => 10,
    }
}

/// Weight of an aspect. The past of verbs with `essere` is more frequent because of its four
/// participles.
fn aspect_weight(aspect: Aspect, verb: &Verb) -> u32 {
    match aspect {
        Aspect::Past if verb.auxiliary == Auxiliary::Essere => 300,
        Aspect::Present => 210,
        Aspect::Habit(_) => 20,
        Aspect::Progressive => 80,
        Aspect::Past => 150,
        Aspect::Future => 270,
        Aspect::Modal(_) => 55,
    }
}

/// Weight of a determiner with number. The nineteen numerals together weigh about as much as one
/// article.
fn opening_weight((determiner, count): (Determiner, Count)) -> u32 {
    match (determiner, count) {
        (Determiner::Definite, Count::Exactly(_)) => 2,
        (Determiner::Possessive(_), Count::Exactly(_)) => 1,
        (_, Count::Exactly(_)) => 6,
        (Determiner::Definite, _) => 120,
        (Determiner::Possessive(_), _) => 20,
        (Determiner::This, _) => 40,
        (Determiner::That, _) => 60,
        (Determiner::Bare, _) => 50,
        (Determiner::Generic, _) => 60,
        (Determiner::No, Count::One) => 250,
        (_, Count::One) => 100,
        (_, Count::Many) => 100,
    }
}
