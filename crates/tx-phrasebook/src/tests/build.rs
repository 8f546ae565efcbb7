//! Builders of sentences from English parts, each of which must be in the grammar.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::super::grammar::{
    Role, additions, ages, aspects, attributes, clock_times, comparatives, forces, is_shown_by,
    may_stand_alone, names, object_role, openings, owners, personal_predicates, predicates,
    pronoun_objects, subjects, surroundings, tense_words, tenses, time_words, whereabouts,
};
use super::super::lexicon::{
    ADJECTIVES, Adjective, DAYS, NOUNS, NUMERALS, Noun, SKIES, SPOTS, STATES,
};
use super::super::phrases::{OPENERS, PHRASES, Phrase};
use super::super::proper_nouns::{CITIES, COUNTRIES, LANGUAGES, NAMES, Name};
use super::super::sentence::{
    Aspect, Being, Clause, Count, Determiner, Ending, Existence, Force, Liked, Minutes, NounPhrase,
    Object, Place, Pointer, Predicate, Pronoun, Said, Sentence, Shown, Subject, Talk, Tense, Time,
    Utterance, Weather,
};
use super::super::verbs::{Frame, MODALS, Preposition, VERBS};
use super::super::{english, italian};

/// Sentence with its final mark and no surroundings.
pub fn typed(sentence: Sentence) -> Utterance {
    Utterance {
        opener: None,
        sentence,
        addressee: None,
        has_commas: true,
        is_contracted: false,
        ending: Ending::Mark,
    }
}

/// Checks sentences against their text in both languages.
pub fn check(pairs: Vec<(Sentence, &str, &str)>) {
    check_typed(pairs.into_iter().map(|(it, source, target)| (typed(it), source, target)));
}

/// Checks utterances against their text in both languages.
pub fn check_typed<'a>(pairs: impl IntoIterator<Item = (Utterance, &'a str, &'a str)>) {
    for (utterance, source, target) in pairs {
        assert_eq!(english::utterance(&utterance), source);
        assert_eq!(italian::utterance(&utterance), target, "for `{source}`");
    }
}

/// All phrases around `noun`.
pub fn phrases(noun: &'static Noun, role: Role) -> Vec<NounPhrase> {
    let mut all = Vec::new();
    let adjectives = attributes(noun, role).into_iter().map(Some);
    for adjective in std::iter::once(None).chain(adjectives) {
        for (determiner, count) in openings(noun, role) {
            all.push(NounPhrase { determiner, count, adjective, noun, owner: None });
        }
        for owner in owners(noun, role) {
            for owner in phrases(owner, Role::Owner) {
                let owner = Some(Box::new(owner));
                let determiner = Determiner::Definite;
                let count = Count::One;
                all.push(NounPhrase { determiner, count, adjective, noun, owner: owner.clone() });
                let count = Count::Many;
                all.push(NounPhrase { determiner, count, adjective, noun, owner });
            }
        }
    }
    all
}

/// Phrase with this English text.
pub fn phrase(text: &str, role: Role) -> NounPhrase {
    let mentioned = |noun: &&Noun| noun.english.iter().any(|word| text.contains(word));
    NOUNS
        .iter()
        .filter(mentioned)
        .flat_map(|noun| phrases(noun, role))
        .find(|phrase| english::noun_phrase(phrase) == text)
        .unwrap_or_else(|| panic!("`{text}` is not in the grammar as {role:?}"))
}

fn subject(text: &str, role: Role) -> Subject {
    if let Some(pronoun) = pronoun(text) {
        return Subject::Pronoun(pronoun);
    }
    match NAMES.iter().find(|it| it.text == text) {
        Some(name) => Subject::Name(name),
        None => Subject::Phrase(phrase(text, role)),
    }
}

fn pronoun(text: &str) -> Option<Pronoun> {
    Pronoun::ALL.into_iter().find(|it| english::pronoun_word(*it) == text)
}

/// Entry of this name.
pub fn name(text: &str) -> &'static Name {
    NAMES.iter().find(|it| it.text == text).unwrap()
}

fn adjective(text: &str) -> &'static Adjective {
    ADJECTIVES.iter().find(|it| it.english == text || it.comparative == Some(text)).unwrap()
}

/// Modal aspect.
pub fn modal(text: &str) -> Aspect {
    Aspect::Modal(MODALS.iter().find(|it| it.english == text).unwrap())
}

/// Time adverbial `word`, which must be one of `allowed`.
fn time_word(word: &str, allowed: &[Time]) -> Time {
    let is_word = |time: &&Time| matches!(time, Time::Word(fixed) if fixed.english == word);
    *allowed.iter().find(is_word).unwrap_or_else(|| panic!("`{word}` does not go with this tense"))
}

/// Builder of a clause.
pub struct Say(Clause);

/// Starts a clause: subject, base form of the verb, aspect, force.
pub fn say(who: &str, verb: &str, aspect: Aspect, force: Force) -> Say {
    let verb = VERBS.iter().find(|it| it.english[0] == verb).unwrap();
    assert!(aspects(verb).contains(&aspect), "{aspect:?}");
    assert!(forces(aspect).contains(&force), "{force:?}");
    let subject = subject(who, Role::Subject);
    if let Subject::Phrase(phrase) = &subject {
        assert!(subjects(verb).contains(&phrase.noun), "{who}");
    }
    let (object, place, extra, time) = (None, None, None, None);
    Say(Clause { subject, aspect, force, verb, object, place, extra, time, time_first: false })
}

impl Say {
    pub fn object(mut self, text: &str) -> Self {
        let object = phrase(text, object_role(self.0.verb, self.0.aspect, self.0.force));
        let (Frame::Object(kinds) | Frame::Gift(kinds)) = self.0.verb.frame else { panic!() };
        assert!(kinds.contains(&object.noun.kind), "{text}");
        self.0.object = Some(Object::Phrase(object));
        self
    }

    /// Adds a pronoun as object, given as subject pronoun.
    pub fn them(mut self, text: &str) -> Self {
        let subject = match self.0.subject {
            Subject::Pronoun(pronoun) => Some(pronoun),
            _ => None,
        };
        let object = pronoun(text).unwrap();
        assert!(pronoun_objects(self.0.verb, self.0.aspect, subject).contains(&object), "{text}");
        self.0.object = Some(Object::Pronoun(object));
        self
    }

    pub fn language(mut self, text: &str, is_little: bool) -> Self {
        assert!(matches!(self.0.verb.frame, Frame::Language(_)));
        let language = LANGUAGES.iter().find(|it| it.english == text).unwrap();
        self.0.object = Some(Object::Language { language, is_little });
        self
    }

    /// Adds the place of a verb that requires one.
    pub fn place(mut self, text: &str) -> Self {
        let Frame::Place { preposition, city } = self.0.verb.frame else { panic!() };
        self.0.place = Some(place(preposition, city, text));
        self
    }

    /// Adds an adjunct: recipient, company, purpose or place.
    pub fn extra(mut self, before: Preposition, text: &str) -> Self {
        let gift = matches!(self.0.verb.frame, Frame::Gift(_)) && before == Preposition::To;
        assert!(gift || self.0.verb.extra == Some(before), "{before:?}");
        let extra = phrase(text, Role::Complement);
        assert!(additions(before).contains(&extra.noun), "{text}");
        self.0.extra = Some((before, extra));
        self
    }

    pub fn when(mut self, word: &str) -> Self {
        self.0.time = Some(time_word(word, &time_words(self.0.aspect)));
        self
    }

    pub fn clock(mut self, hour: &str, minutes: Minutes) -> Self {
        let time = Time::Clock(NUMERALS.iter().find(|it| it.english == hour), minutes);
        assert!(clock_times(self.0.aspect).contains(&time), "{hour}");
        self.0.time = Some(time);
        self
    }

    pub fn first(mut self) -> Self {
        assert!(self.0.time.is_some() && self.0.force != Force::Asked);
        self.0.time_first = true;
        self
    }

    pub fn end(self) -> Sentence {
        let is_complete = self.0.object.is_some() || self.0.place.is_some();
        assert!(is_complete || may_stand_alone(self.0.verb));
        Sentence::Clause(self.0)
    }
}

fn place(before: Preposition, city: bool, text: &str) -> Place {
    if let Some(found) = CITIES.iter().find(|it| city && it.english == text) {
        return Place::City(before, found);
    }
    match COUNTRIES.iter().find(|it| city && it.english == text) {
        Some(found) => Place::Country(before, found),
        None => Place::At(before, phrase(text, Role::Complement)),
    }
}

/// Sentence with `to be`: an adjective, state or spot with optional `very`, or a place.
pub fn be(who: &str, what: &str, tense: Tense, force: Force, time: Option<&str>) -> Sentence {
    let (is_very, word) = match what.strip_prefix("very ") {
        Some(word) => (true, word),
        None => (false, what),
    };
    let is_adjective = ADJECTIVES.iter().any(|it| it.english == word);
    let (subject, predicate) = if let Some(state) =
        STATES.iter().find(|it| it.english == word && !is_said_of_things(who))
    {
        assert!(!is_very || state.very.is_some(), "{what}");
        (subject(who, Role::Described), Predicate::State { state, is_very })
    } else if is_adjective {
        let (subject, adjective) = (subject(who, Role::Described), adjective(word));
        let fitting = match &subject {
            Subject::Pronoun(_) | Subject::Name(_) => personal_predicates(),
            Subject::Phrase(phrase) => predicates(phrase.noun),
        };
        assert!(fitting.contains(&adjective), "{what}");
        (subject, Predicate::Adjective { adjective, is_very })
    } else if let Some(spot) = SPOTS.iter().find(|it| it.english == what) {
        (subject(who, Role::Known), Predicate::Spot(spot))
    } else {
        let (before, at) = match what.split_once(' ').unwrap() {
            ("on", at) => (Preposition::On, at),
            (_, at) => (Preposition::In, at),
        };
        let subject = subject(who, Role::Known);
        let at = place(before, !matches!(subject, Subject::Phrase(_)), at);
        if let (Subject::Phrase(phrase), Place::At(_, at)) = (&subject, &at) {
            assert!(surroundings(phrase.noun).contains(&(before, at.noun.kind)), "{what}");
        }
        (subject, Predicate::Place(at))
    };
    assert!(tenses(&predicate).contains(&tense), "{tense:?}");
    let time = time.map(|word| time_word(word, &tense_words(tense)));
    Sentence::Being(Being { subject, tense, force, predicate, time, time_first: false })
}

/// Returns `true` for things, because `hot` differs between drinks and persons.
fn is_said_of_things(who: &str) -> bool {
    NOUNS.iter().any(|noun| noun.kind == super::Kind::Drink && who.contains(noun.english[0]))
}

/// Comparison.
pub fn compare(who: &str, how: &str, than: &str) -> Sentence {
    let subject = subject(who, Role::Described);
    let than = phrase(than, Role::Complement);
    let noun = match &subject {
        Subject::Pronoun(_) | Subject::Name(_) => None,
        Subject::Phrase(phrase) => Some(phrase.noun),
    };
    let adjective = adjective(how);
    assert!(comparatives(noun, than.noun).contains(&adjective), "{how}");
    Sentence::Comparison { subject, adjective, than }
}

/// Sentence with `there is`.
pub fn there(tense: Tense, force: Force, what: &str, place: &str) -> Sentence {
    let role = if force == Force::Denied { Role::DeniedTheme } else { Role::Theme };
    let theme = phrase(what, role);
    let place = phrase(place, Role::Complement);
    let (before, _) =
        whereabouts(theme.noun).iter().find(|(_, kind)| *kind == place.noun.kind).unwrap();
    Sentence::Existence(Existence { tense, force, theme, place: (*before, place) })
}

/// Question `Where is …?`.
pub fn where_is(what: &str, past: Option<&str>) -> Sentence {
    let past = past.map(|word| time_word(word, &tense_words(Tense::Past)));
    Sentence::Where { what: subject(what, Role::Known), past }
}

/// Question `How much does … cost?`.
pub fn cost(what: &str) -> Sentence {
    Sentence::Cost { what: phrase(what, Role::Known) }
}

/// Wish `I would like …, please.`
pub fn wish(what: &str, is_plural: bool) -> Sentence {
    Sentence::Wish { what: phrase(what, Role::Ordered), is_plural, is_polite: true }
}

/// Sentence about the weather; `when` opens a statement and ends a question.
pub fn weather(
    when: Option<&str>,
    tense: Tense,
    force: Force,
    sky: &str,
    at: Option<&str>,
) -> Sentence {
    let time = when.map(|word| time_word(word, &tense_words(tense)));
    let sky = SKIES.iter().find(|it| it.english == sky).unwrap();
    let place = at.map(|text| place(Preposition::In, true, text));
    let time_first = time.is_some() && force != Force::Asked;
    Sentence::Weather(Weather { time, time_first, tense, force, sky, place })
}

/// Entry of a fixed phrase.
pub fn phrase_entry(text: &str) -> &'static Phrase {
    OPENERS.iter().chain(PHRASES).find(|it| it.english == text).unwrap_or_else(|| panic!("{text}"))
}

/// Sentence of a fixed phrase.
pub fn fixed(text: &str) -> Sentence {
    Sentence::Talk(Talk::Phrase(phrase_entry(text)))
}

/// `My name is Anna.`, or without a name the question for it.
pub fn naming(who: &str, text: Option<&str>, force: Force) -> Sentence {
    let (who, name) = (subject(who, Role::Owner), text.map(name));
    Sentence::Talk(Talk::Naming { who, name, force })
}

/// `I am twenty years old.`, or without an age the question for it.
pub fn age(who: &str, years: Option<&str>, force: Force) -> Sentence {
    let years = years.map(|text| *ages().iter().find(|it| it.english == text).unwrap());
    Sentence::Talk(Talk::Age { who: subject(who, Role::Owner), years, force })
}

/// `I am from Rome.`, or without a place the question for it.
pub fn origin(who: &str, from: Option<&str>, force: Force) -> Sentence {
    let from = from.map(|text| place(Preposition::From, true, text));
    Sentence::Talk(Talk::Origin { who: subject(who, Role::Owner), from, force })
}

/// `I like the cat.`
pub fn like(who: &str, what: &str, force: Force) -> Sentence {
    let what = if let Some(city) = CITIES.iter().find(|it| it.english == what) {
        Liked::City(city)
    } else if let Some(country) = COUNTRIES.iter().find(|it| it.english == what) {
        Liked::Country(country)
    } else {
        Liked::Phrase(phrase(what, Role::Liked))
    };
    Sentence::Talk(Talk::Liking { who: subject(who, Role::Owner), what, force })
}

/// `How is your mother?`
pub fn how_is(who: &str, today: bool) -> Sentence {
    Sentence::Talk(Talk::HowIs { who: subject(who, Role::Owner), today })
}

/// `This is my mother.`; `pointer` is `this`, `that` or a pronoun, in singular and plural.
pub fn point(pointer: &str, what: &str, force: Force) -> Sentence {
    let pointer = match pointer {
        "this" => Pointer::This,
        "that" => Pointer::That,
        text => Pointer::Pronoun(pronoun(text).unwrap()),
    };
    let what = match names(pointer).into_iter().find(|it| it.text == what) {
        Some(name) => Shown::Name(name),
        None => Shown::Phrase(phrase(what, Role::Shown)),
    };
    if let Shown::Phrase(phrase) = &what {
        assert!(is_shown_by(pointer, phrase.noun, phrase.count));
    }
    Sentence::Talk(Talk::Pointing { pointer, what, force })
}

/// `It is three o'clock.`
pub fn clock(hour: &str, minutes: Minutes, force: Force) -> Sentence {
    let hour = NUMERALS.iter().find(|it| it.english == hour);
    Sentence::Talk(Talk::Clock { hour, minutes, force })
}

/// `Today is Monday.`
pub fn day(tomorrow: bool, day: &str, force: Force) -> Sentence {
    let day = DAYS.iter().find(|it| it.english.ends_with(day)).unwrap();
    Sentence::Talk(Talk::Day { tomorrow, day, force })
}

/// `Thank you for the coffee.`
pub fn thanks(what: &str) -> Sentence {
    Sentence::Talk(Talk::Thanks { what: phrase(what, Role::Known) })
}

/// `How do you say cat in Italian?`
pub fn how_to_say(what: &str, language: &str) -> Sentence {
    let what = match NOUNS.iter().find(|it| it.english[0] == what) {
        Some(noun) => Said::Noun(noun),
        None => Said::Phrase(phrase_entry(what)),
    };
    let language = LANGUAGES.iter().find(|it| it.english == language).unwrap();
    Sentence::Talk(Talk::Saying { what, language })
}
