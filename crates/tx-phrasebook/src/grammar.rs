//! Options of each position: the finite lists from which sentences are sampled and counted.
//!
//! Sampling and counting use the same lists, so they cannot diverge.

use super::lexicon::{
    ADJECTIVES, Adjective, DAYS, Fixed, Gender, Kind, NOUNS, NUMERALS, Noun, PEOPLE, POSSESSORS,
    Position, State, StateVerb, TENS, TIMES_FUTURE, TIMES_HABIT, TIMES_NOW, TIMES_PAST,
};
use super::proper_nouns::{NAMES, Name};
use super::sentence::{
    Aspect, Count, Determiner, Force, Frequency, Minutes, Pointer, Predicate, Pronoun, Tense, Time,
};
use super::verbs::{Frame, LanguageArticle, MODALS, Modal, Preposition, Verb};

/// Role of a noun phrase in its sentence; determines its determiners, adjectives and owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Subject of a clause.
    Subject,
    /// Object of a statement or question.
    Object,
    /// Object of a negated clause: `any`, not `some`.
    DeniedObject,
    /// Object of liking or loving: definite or generic.
    Liked,
    /// Predicate noun after a pointer.
    Shown,
    /// Complement of a preposition.
    Complement,
    /// Theme of `there is`.
    Theme,
    /// Theme of `there is not`.
    DeniedTheme,
    /// Definite theme of a question for location or price.
    Known,
    /// Object of an order; never possessed.
    Ordered,
    /// Definite subject of an adjective, therefore without attribute.
    Described,
    /// Possessor: singular, definite, without adjective.
    Owner,
}

/// Determiners and numbers that a phrase around `noun` can begin with.
pub(super) fn openings(noun: &Noun, role: Role) -> Vec<(Determiner, Count)> {
    let some = match role {
        Role::Object | Role::Theme | Role::Ordered => Some(Determiner::Some),
        Role::DeniedObject => Some(Determiner::Any),
        Role::DeniedTheme => Some(Determiner::No),
        _ => None,
    };
    let bare = match role {
        Role::Object | Role::DeniedObject | Role::Theme | Role::Shown => Some(Determiner::Bare),
        Role::Subject | Role::Described | Role::Liked => Some(Determiner::Generic),
        _ => None,
    };
    let known = !matches!(role, Role::Theme | Role::DeniedTheme);
    let new = !matches!(
        role,
        Role::DeniedTheme | Role::Known | Role::Liked | Role::Described | Role::Owner
    );
    let possessors = if role != Role::Ordered && is_owned(noun) { POSSESSORS } else { &[] };
    let mut all = Vec::new();
    let add_known = |all: &mut Vec<_>, count| {
        if known {
            all.push((Determiner::Definite, count));
            if role != Role::Shown {
                all.extend([Determiner::This, Determiner::That].map(|d| (d, count)));
            }
            all.extend(possessors.iter().map(|who| (Determiner::Possessive(who), count)));
        }
    };
    add_known(&mut all, Count::One);
    if !noun.is_countable() {
        all.extend(some.into_iter().chain(bare).map(|it| (it, Count::One)));
        if role == Role::Ordered && ["beer", "coffee", "tea", "wine"].contains(&noun.english[0]) {
            // One cup or glass of a drink.
            all.push((Determiner::Indefinite, Count::One));
        }
        return all;
    }
    if new {
        all.push((Determiner::Indefinite, Count::One));
    }
    if role == Role::DeniedTheme {
        all.push((Determiner::No, Count::One));
    }
    if role == Role::Owner {
        return all;
    }
    add_known(&mut all, Count::Many);
    all.extend(some.into_iter().chain(bare).map(|it| (it, Count::Many)));
    for numeral in numerals(noun, role) {
        let count = Count::Exactly(numeral);
        if new {
            all.push((Determiner::Bare, count));
        }
        if known {
            all.push((Determiner::Definite, count));
            all.extend(possessors.iter().map(|who| (Determiner::Possessive(who), count)));
        }
    }
    all
}

/// Returns `true` for nouns that take a possessive: not a station, and not `woman`.
fn is_owned(noun: &Noun) -> bool {
    match noun.kind {
        Kind::Place => ["garden", "school", "office", "hotel"].contains(&noun.english[0]),
        Kind::Person => ["friend", "student", "doctor", "psychologist"].contains(&noun.english[0]),
        _ => true,
    }
}

/// Numerals that count the noun: `twenty books`, but not twenty mothers or stadiums. Large numerals
/// occur in objects only; few numerals occur in subjects.
fn numerals(noun: &Noun, role: Role) -> &'static [Fixed] {
    match noun.kind {
        _ if role == Role::Shown => &[],
        _ if matches!(role, Role::Subject | Role::Complement) => &NUMERALS[..3],
        Kind::Family | Kind::Place | Kind::Part | Kind::Property => &NUMERALS[..3],
        _ => NUMERALS,
    }
}

/// Adjectives that can modify `noun`; a noun without adjective is always possible.
pub(super) fn attributes(noun: &Noun, role: Role) -> Vec<&'static Adjective> {
    if matches!(role, Role::Described | Role::Owner) {
        return Vec::new();
    }
    predicates(noun).into_iter().filter(|it| it.position != Position::Predicate).collect()
}

/// Adjectives that can be a predicate of `noun`.
pub(super) fn predicates(noun: &Noun) -> Vec<&'static Adjective> {
    ADJECTIVES.iter().filter(|it| it.kinds.contains(&noun.kind)).collect()
}

/// Adjectives that can be a predicate of a pronoun.
pub(super) fn personal_predicates() -> Vec<&'static Adjective> {
    ADJECTIVES.iter().filter(|it| it.kinds.contains(&Kind::Family)).collect()
}

/// Nouns that can own `noun`, as in `the student's dog` or `the door of the museum`.
pub(super) fn owners(noun: &Noun, role: Role) -> Vec<&'static Noun> {
    match (role, noun.kind) {
        (Role::Object | Role::DeniedObject | Role::Known | Role::Described, kind) => match kind {
            Kind::Part => nouns(&[Kind::Place, Kind::Property]),
            Kind::Animal | Kind::Thing | Kind::Container | Kind::Property => nouns(PEOPLE),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Nouns of the given kinds.
pub(super) fn nouns(kinds: &[Kind]) -> Vec<&'static Noun> {
    NOUNS.iter().filter(|noun| kinds.contains(&noun.kind)).collect()
}

/// Role of an object: negation and `never` require `any` instead of `some`.
pub(super) fn object_role(verb: &Verb, aspect: Aspect, force: Force) -> Role {
    if verb.generic {
        Role::Liked
    } else if force == Force::Denied || aspect == Aspect::Habit(Frequency::Never) {
        Role::DeniedObject
    } else {
        Role::Object
    }
}

/// Nouns that can be the subject of `verb`.
pub(super) fn subjects(verb: &Verb) -> Vec<&'static Noun> {
    let mut all = nouns(PEOPLE);
    if verb.animals {
        all.extend(nouns(&[Kind::Animal]));
    }
    all
}

/// Nouns that can follow the preposition of an adjunct.
pub(super) fn additions(preposition: Preposition) -> Vec<&'static Noun> {
    match preposition {
        Preposition::In => nouns(&[Kind::Place]),
        _ => nouns(PEOPLE),
    }
}

/// Nouns other than `noun` that share a comparative with it.
pub(super) fn rivals(noun: &Noun) -> Vec<&'static Noun> {
    let kinds = if PEOPLE.contains(&noun.kind) { PEOPLE } else { &[noun.kind] };
    nouns(kinds).into_iter().filter(|rival| *rival != noun).collect()
}

/// Adjectives that compare two things; `None` is a pronoun.
pub(super) fn comparatives(noun: Option<&Noun>, rival: &Noun) -> Vec<&'static Adjective> {
    let kind = noun.map_or(Kind::Family, |noun| noun.kind);
    let said_of_both = |it: &&Adjective| it.kinds.contains(&kind) && it.kinds.contains(&rival.kind);
    ADJECTIVES.iter().filter(|it| it.comparative.is_some()).filter(said_of_both).collect()
}

/// Locations of a theme of this kind.
pub(super) fn whereabouts(theme: &Noun) -> &'static [(Preposition, Kind)] {
    match theme.kind {
        Kind::Thing => &[(Preposition::In, Kind::Container), (Preposition::On, Kind::Surface)],
        Kind::Food => &[(Preposition::In, Kind::Container), (Preposition::On, Kind::Surface)],
        Kind::Dish | Kind::Drink => &[(Preposition::On, Kind::Surface)],
        Kind::Person | Kind::Animal => &[(Preposition::In, Kind::Place)],
        Kind::Surface => &[(Preposition::In, Kind::Place)],
        _ => &[],
    }
}

/// Nouns that can be the theme of `there is`.
pub(super) fn themes() -> Vec<&'static Noun> {
    NOUNS.iter().filter(|noun| !whereabouts(noun).is_empty()).collect()
}

/// Kinds of nouns with a price.
pub(super) static FOR_SALE: &[Kind] = &[
    Kind::Food,
    Kind::Dish,
    Kind::Drink,
    Kind::Thing,
    Kind::Container,
    Kind::Surface,
    Kind::Property,
];

/// Kinds of nouns that can be ordered.
pub(super) static ON_ORDER: &[Kind] = &[Kind::Food, Kind::Dish, Kind::Drink, Kind::Thing];

/// Nouns in questions for a location: all except relatives and parts of buildings.
pub(super) fn findable() -> Vec<&'static Noun> {
    NOUNS.iter().filter(|noun| noun.kind != Kind::Part).collect()
}

/// Locations of a person or thing; relatives have those of other people.
pub(super) fn surroundings(noun: &Noun) -> &'static [(Preposition, Kind)] {
    match noun.kind {
        Kind::Family => &[(Preposition::In, Kind::Place)],
        _ => whereabouts(noun),
    }
}

/// Nouns whose location can be stated.
pub(super) fn placed() -> Vec<&'static Noun> {
    NOUNS.iter().filter(|noun| !surroundings(noun).is_empty()).collect()
}

/// Aspects of a verb.
pub(super) fn aspects(verb: &Verb) -> Vec<Aspect> {
    let mut all = vec![Aspect::Present, Aspect::Future];
    all.extend([Frequency::Always, Frequency::Often, Frequency::Never].map(Aspect::Habit));
    if verb.progressive {
        all.push(Aspect::Progressive);
    }
    if verb.past {
        all.push(Aspect::Past);
    }
    if verb.modal {
        // `can` translates to `sapere` for learned skills, which only fixed phrases have.
        let is_learned = verb.frame == Frame::Language(LanguageArticle::Without);
        let fits = |it: &&Modal| !is_learned || it.english != "can";
        all.extend(MODALS.iter().filter(fits).map(Aspect::Modal));
    }
    all
}

/// Forces of an aspect; a habit is only stated.
pub(super) fn forces(aspect: Aspect) -> &'static [Force] {
    match aspect {
        Aspect::Habit(_) => &[Force::Stated],
        _ => &[Force::Stated, Force::Denied, Force::Asked],
    }
}

/// Time adverbials of an aspect.
pub(super) fn time_words(aspect: Aspect) -> Vec<Time> {
    match aspect {
        Aspect::Present => words(&[TIMES_HABIT]),
        Aspect::Habit(_) => Vec::new(),
        Aspect::Progressive => words(&[TIMES_NOW]),
        Aspect::Past => words(&[TIMES_PAST, DAYS]),
        Aspect::Future => words(&[TIMES_FUTURE, DAYS]),
        Aspect::Modal(_) => words(&[TIMES_NOW, TIMES_FUTURE]),
    }
}

/// Time adverbials of a tense of `to be`.
pub(super) fn tense_words(tense: Tense) -> Vec<Time> {
    match tense {
        Tense::Present => words(&[TIMES_NOW]),
        Tense::Past => words(&[TIMES_PAST, DAYS]),
        Tense::Future => words(&[TIMES_FUTURE, DAYS]),
    }
}

fn words(tables: &[&'static [Fixed]]) -> Vec<Time> {
    tables.iter().flat_map(|table| table.iter()).map(Time::Word).collect()
}

/// Times of day: every full, quarter and half hour, if the aspect permits a time of day.
pub(super) fn clock_times(aspect: Aspect) -> Vec<Time> {
    if matches!(aspect, Aspect::Progressive | Aspect::Habit(_)) {
        return Vec::new();
    }
    hours().into_iter().flat_map(|hour| MINUTES.map(|minutes| Time::Clock(hour, minutes))).collect()
}

/// Hours of the clock; `None` is one o'clock.
pub(super) fn hours() -> Vec<Option<&'static Fixed>> {
    std::iter::once(None).chain(NUMERALS.iter().take(11).map(Some)).collect()
}

/// Parts of the hour.
pub(super) static MINUTES: [Minutes; 3] = [Minutes::Sharp, Minutes::Quarter, Minutes::Half];

/// Ages: two to nineteen, and the tens.
pub(super) fn ages() -> Vec<&'static Fixed> {
    NUMERALS.iter().filter(|it| it.english != "twenty").chain(TENS).collect()
}

/// Pronouns that can be the object of `verb`. Reflexive objects are excluded. In the past tense
/// `la` and `li` are excluded, because the participle agrees with them.
pub(super) fn pronoun_objects(
    verb: &Verb,
    aspect: Aspect,
    subject: Option<Pronoun>,
) -> Vec<Pronoun> {
    use Pronoun::{He, I, She, They, We, You, YouAll};
    let agrees = |object: &Pronoun| aspect == Aspect::Past && matches!(object, She | They);
    let is_other = |object: &Pronoun| match subject {
        None | Some(He | She | They) => true,
        Some(I | We) => !matches!(object, I | We),
        Some(You | YouAll) => !matches!(object, You | YouAll),
    };
    let fits = |object: &Pronoun| verb.persons && is_other(object) && !agrees(object);
    Pronoun::ALL.into_iter().filter(fits).collect()
}

/// Returns `true` if the object or location of `verb` is optional.
pub(super) fn may_stand_alone(verb: &Verb) -> bool {
    verb.alone && !matches!(verb.frame, Frame::Gift(_))
}

/// Returns `true` if pointer and noun can be combined: `she is my sister`, `these are apples`.
pub(super) fn is_shown_by(pointer: Pointer, noun: &Noun, count: Count) -> bool {
    match pointer {
        Pointer::This | Pointer::That => true,
        Pointer::Pronoun(pronoun) => {
            PEOPLE.contains(&noun.kind)
                && pronoun.is_plural() == (count != Count::One)
                && is_of_gender(pronoun, noun.gender)
        }
    }
}

/// Tenses of a predicate with `to be`. The other forms of `stare` would be too rare.
pub(super) fn tenses(predicate: &Predicate) -> &'static [Tense] {
    match predicate {
        Predicate::State { state: State { verb: StateVerb::Stare, .. }, .. } => &[Tense::Present],
        _ => &Tense::ALL,
    }
}

/// Subjects of `… is my mother`.
pub(super) fn pointers() -> Vec<Pointer> {
    let pronouns = Pronoun::ALL.into_iter().map(Pointer::Pronoun);
    [Pointer::This, Pointer::That].into_iter().chain(pronouns).collect()
}

/// Names that match the pointer: `he is Marco`, `this is Anna`.
pub(super) fn names(pointer: Pointer) -> Vec<&'static Name> {
    match pointer {
        Pointer::That => Vec::new(),
        Pointer::This => NAMES.iter().collect(),
        Pointer::Pronoun(pronoun) if pronoun.is_plural() => Vec::new(),
        Pointer::Pronoun(pronoun) => {
            NAMES.iter().filter(|name| is_of_gender(pronoun, name.gender)).collect()
        }
    }
}

fn is_of_gender(pronoun: Pronoun, gender: Gender) -> bool {
    match pronoun {
        Pronoun::He => gender == Gender::Masculine,
        Pronoun::She => gender == Gender::Feminine,
        _ => true,
    }
}

/// Singular pronouns, in sentences that state a name.
pub(super) static NAMED: [Pronoun; 4] = [Pronoun::I, Pronoun::You, Pronoun::He, Pronoun::She];
