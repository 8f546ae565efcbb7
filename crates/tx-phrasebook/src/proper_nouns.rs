//! Names of people, cities, countries and languages.

use super::lexicon::{Fixed, Gender, fixed};

/// First name, the same in both languages.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) text: &'static str,
    pub(super) gender: Gender,
}

const fn she(text: &'static str) -> Name {
    Name { text, gender: Gender::Feminine }
}

const fn he(text: &'static str) -> Name {
    Name { text, gender: Gender::Masculine }
}

/// All first names.
pub(super) static NAMES: &[Name] = &[
    she("Alice"),
    she("Anna"),
    she("Emma"),
    she("Giulia"),
    she("Julia"),
    she("Kate"),
    she("Laura"),
    she("Lucy"),
    she("Maria"),
    she("Mary"),
    she("Sara"),
    she("Sofia"),
    he("Alex"),
    he("Daniel"),
    he("David"),
    he("James"),
    he("John"),
    he("Luca"),
    he("Marco"),
    he("Mark"),
    he("Michael"),
    he("Paul"),
    he("Peter"),
    he("Tom"),
];

/// Cities: `in` and `to` are both `a`, without article.
pub(super) static CITIES: &[Fixed] = &[
    fixed("Rome", "Roma"),
    fixed("Milan", "Milano"),
    fixed("Naples", "Napoli"),
    fixed("Florence", "Firenze"),
    fixed("Venice", "Venezia"),
    fixed("London", "Londra"),
    fixed("Paris", "Parigi"),
    fixed("Berlin", "Berlino"),
    fixed("New York", "New York"),
];

/// Country: `in` and `to` are both `in`, without article; other prepositions require the article.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Country {
    pub(super) english: &'static str,
    pub(super) italian: &'static str,
    /// Article: `il`, `la` or `l'`.
    pub(super) article: &'static str,
}

const fn country(english: &'static str, article: &'static str, italian: &'static str) -> Country {
    Country { english, italian, article }
}

/// All countries.
pub(super) static COUNTRIES: &[Country] = &[
    country("Italy", "l'", "Italia"),
    country("England", "l'", "Inghilterra"),
    country("Ireland", "l'", "Irlanda"),
    country("India", "l'", "India"),
    country("America", "l'", "America"),
    country("Australia", "l'", "Australia"),
    country("France", "la", "Francia"),
    country("Germany", "la", "Germania"),
    country("Spain", "la", "Spagna"),
    country("China", "la", "Cina"),
    country("Canada", "il", "Canada"),
    country("Japan", "il", "Giappone"),
    country("Brazil", "il", "Brasile"),
];

/// Languages, all masculine: `l'` before a vowel, otherwise `il` or `lo`.
pub(super) static LANGUAGES: &[Fixed] = &[
    fixed("English", "inglese"),
    fixed("Italian", "italiano"),
    fixed("French", "francese"),
    fixed("German", "tedesco"),
    fixed("Spanish", "spagnolo"),
    fixed("Chinese", "cinese"),
    fixed("Japanese", "giapponese"),
];
