//! Builds sentences from English pieces, each of which must be in the grammar.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::super::grammar::{
    Role, additions, aspects, attributes, clock_times, comparatives, forces, object_role, openings,
    owners, personal_predicates, predicates, subjects, tense_words, time_words, whereabouts,
};
use super::super::lexicon::{ADJECTIVES, Adjective, CITIES, NOUNS, NUMERALS, Noun, SKIES};
use super::super::sentence::{
    Aspect, Being, Clause, Count, Determiner, Existence, Force, Minutes, NounPhrase, Place,
    Pronoun, Sentence, Subject, Tense, Time, Weather,
};
use super::super::verbs::{Frame, MODALS, Preposition, VERBS};
use super::super::{english, italian};

/// Checks sentences against both their wordings.
pub fn check(pairs: Vec<(Sentence, &str, &str)>) {
    for (sentence, source, target) in pairs {
        assert_eq!(english::sentence(&sentence), source);
        assert_eq!(italian::sentence(&sentence), target, "for `{source}`");
    }
}

/// Every phrase around `noun`.
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

/// The phrase with this English.
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
    match Pronoun::ALL.into_iter().find(|it| english::pronoun_word(*it) == text) {
        Some(pronoun) => Subject::Pronoun(pronoun),
        None => Subject::Phrase(phrase(text, role)),
    }
}

fn adjective(text: &str) -> &'static Adjective {
    ADJECTIVES.iter().find(|it| it.english == text || it.comparative == Some(text)).unwrap()
}

/// A modal aspect.
pub fn modal(text: &str) -> Aspect {
    Aspect::Modal(MODALS.iter().find(|it| it.english == text).unwrap())
}

/// `word`, one of the words of time that are allowed here.
fn time_word(word: &str, allowed: &[Time]) -> Time {
    let is_word = |time: &&Time| matches!(time, Time::Word(fixed) if fixed.english == word);
    *allowed.iter().find(is_word).unwrap_or_else(|| panic!("`{word}` does not go with this tense"))
}

/// A clause in the making.
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
        let object = phrase(text, object_role(self.0.aspect, self.0.force));
        let (Frame::Object(kinds) | Frame::Gift(kinds)) = self.0.verb.frame else { panic!() };
        assert!(kinds.contains(&object.noun.kind), "{text}");
        self.0.object = Some(object);
        self
    }

    /// The place of a verb that asks for one.
    pub fn place(mut self, text: &str) -> Self {
        let Frame::Place { preposition, city } = self.0.verb.frame else { panic!() };
        self.0.place = Some(match CITIES.iter().find(|it| it.english == text) {
            Some(found) if city => Place::City(preposition, found),
            _ => Place::At(preposition, phrase(text, Role::Complement)),
        });
        self
    }

    /// The receiver, company, purpose or place that is added.
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
        Sentence::Clause(self.0)
    }
}

/// A sentence around `to be`.
pub fn be(who: &str, what: &str, tense: Tense, force: Force, time: Option<&str>) -> Sentence {
    let subject = subject(who, Role::Described);
    let adjective = adjective(what);
    let fitting = match &subject {
        Subject::Pronoun(_) => personal_predicates(),
        Subject::Phrase(phrase) => predicates(phrase.noun),
    };
    assert!(fitting.contains(&adjective), "{what}");
    let time = time.map(|word| time_word(word, &tense_words(tense)));
    Sentence::Being(Being { subject, tense, force, adjective, time, time_first: false })
}

/// A comparison.
pub fn compare(who: &str, how: &str, than: &str) -> Sentence {
    let subject = subject(who, Role::Described);
    let than = phrase(than, Role::Complement);
    let noun = match &subject {
        Subject::Pronoun(_) => None,
        Subject::Phrase(phrase) => Some(phrase.noun),
    };
    let adjective = adjective(how);
    assert!(comparatives(noun, than.noun).contains(&adjective), "{how}");
    Sentence::Comparison { subject, adjective, than }
}

/// A sentence that begins with `there is`.
pub fn there(tense: Tense, force: Force, what: &str, place: &str) -> Sentence {
    let role = if force == Force::Denied { Role::DeniedTheme } else { Role::Theme };
    let theme = phrase(what, role);
    let place = phrase(place, Role::Complement);
    let (before, _) =
        whereabouts(theme.noun).iter().find(|(_, kind)| *kind == place.noun.kind).unwrap();
    Sentence::Existence(Existence { tense, force, theme, place: (*before, place) })
}

/// `Where is …?`
pub fn where_is(what: &str, past: Option<&str>) -> Sentence {
    let past = past.map(|word| time_word(word, &tense_words(Tense::Past)));
    Sentence::Where { what: phrase(what, Role::Known), past }
}

/// `How much does … cost?`
pub fn cost(what: &str) -> Sentence {
    Sentence::Cost { what: phrase(what, Role::Known) }
}

/// `I would like …, please.`
pub fn wish(what: &str, many: bool) -> Sentence {
    Sentence::Wish { what: phrase(what, Role::Ordered), many }
}

/// A sentence about the weather.
pub fn weather(when: &str, tense: Tense, force: Force, sky: &str, place: Option<&str>) -> Sentence {
    let time = time_word(when, &tense_words(tense));
    let sky = SKIES.iter().find(|it| it.english == sky).unwrap();
    let place = place.map(|text| match CITIES.iter().find(|it| it.english == text) {
        Some(city) => Place::City(Preposition::In, city),
        None => Place::At(Preposition::In, phrase(text, Role::Complement)),
    });
    Sentence::Weather(Weather { time, tense, force, sky, place })
}
