//! Lexicon of the phrasebook: nouns, adjectives, determiners, times, weather, states.
//!
//! The tables pair English words with Italian words. No English word has two entries of one class,
//! so each English sentence has exactly one translation. A noun whose Italian gender is not visible
//! in English (`friend`, `student`) is masculine.

/// Grammatical gender in Italian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Gender {
    Masculine,
    Feminine,
}

/// Semantic kind of a noun; determines its verbs, adjectives and determiners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Relatives. In the singular, `my mother` is `mia madre`, without article.
    Family,
    Person,
    Animal,
    /// Countable food.
    Food,
    /// Uncountable food: singular only, `some bread` is `del pane`.
    Dish,
    /// Drinks, uncountable too.
    Drink,
    Thing,
    /// Containers, with the preposition `in`.
    Container,
    /// Surfaces, with the preposition `on`.
    Surface,
    /// Parts of a building.
    Part,
    /// Places in town, as destination and location.
    Place,
    /// Large possessions.
    Property,
}

/// Noun with its forms.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Noun {
    /// Singular and plural.
    pub(super) english: [&'static str; 2],
    /// Singular and plural.
    pub(super) italian: [&'static str; 2],
    pub(super) gender: Gender,
    pub(super) kind: Kind,
}

impl Noun {
    /// Returns `true` if the noun has a plural and takes numerals.
    pub(super) fn is_countable(&self) -> bool {
        !matches!(self.kind, Kind::Dish | Kind::Drink)
    }
}

/// Countable masculine noun.
const fn m(kind: Kind, english: [&'static str; 2], italian: [&'static str; 2]) -> Noun {
    Noun { english, italian, gender: Gender::Masculine, kind }
}

/// Countable feminine noun.
const fn f(kind: Kind, english: [&'static str; 2], italian: [&'static str; 2]) -> Noun {
    Noun { english, italian, gender: Gender::Feminine, kind }
}

/// Noun without plural.
const fn mass(kind: Kind, gender: Gender, english: &'static str, italian: &'static str) -> Noun {
    Noun { english: [english; 2], italian: [italian; 2], gender, kind }
}

use Gender::{Feminine, Masculine};
use Kind::{
    Animal, Container, Dish, Drink, Family, Food, Part, Person, Place, Property, Surface, Thing,
};

/// All nouns, by kind.
pub(super) static NOUNS: &[Noun] = &[
    m(Family, ["father", "fathers"], ["padre", "padri"]),
    f(Family, ["mother", "mothers"], ["madre", "madri"]),
    m(Family, ["brother", "brothers"], ["fratello", "fratelli"]),
    f(Family, ["sister", "sisters"], ["sorella", "sorelle"]),
    f(Family, ["wife", "wives"], ["moglie", "mogli"]),
    m(Family, ["husband", "husbands"], ["marito", "mariti"]),
    m(Family, ["uncle", "uncles"], ["zio", "zii"]),
    f(Family, ["aunt", "aunts"], ["zia", "zie"]),
    m(Person, ["boy", "boys"], ["ragazzo", "ragazzi"]),
    f(Person, ["girl", "girls"], ["ragazza", "ragazze"]),
    m(Person, ["man", "men"], ["uomo", "uomini"]),
    f(Person, ["woman", "women"], ["donna", "donne"]),
    m(Person, ["friend", "friends"], ["amico", "amici"]),
    m(Person, ["student", "students"], ["studente", "studenti"]),
    f(Person, ["actress", "actresses"], ["attrice", "attrici"]),
    m(Person, ["psychologist", "psychologists"], ["psicologo", "psicologi"]),
    m(Person, ["doctor", "doctors"], ["dottore", "dottori"]),
    m(Person, ["teacher", "teachers"], ["insegnante", "insegnanti"]),
    m(Animal, ["cat", "cats"], ["gatto", "gatti"]),
    m(Animal, ["dog", "dogs"], ["cane", "cani"]),
    m(Animal, ["horse", "horses"], ["cavallo", "cavalli"]),
    f(Animal, ["duck", "ducks"], ["anatra", "anatre"]),
    m(Animal, ["squirrel", "squirrels"], ["scoiattolo", "scoiattoli"]),
    f(Food, ["apple", "apples"], ["mela", "mele"]),
    f(Food, ["orange", "oranges"], ["arancia", "arance"]),
    m(Food, ["tomato", "tomatoes"], ["pomodoro", "pomodori"]),
    f(Food, ["cake", "cakes"], ["torta", "torte"]),
    m(Food, ["sandwich", "sandwiches"], ["panino", "panini"]),
    f(Food, ["pizza", "pizzas"], ["pizza", "pizze"]),
    mass(Dish, Masculine, "bread", "pane"),
    mass(Dish, Masculine, "cheese", "formaggio"),
    mass(Dish, Feminine, "meat", "carne"),
    mass(Dish, Masculine, "sugar", "zucchero"),
    mass(Dish, Feminine, "pasta", "pasta"),
    mass(Drink, Feminine, "water", "acqua"),
    mass(Drink, Masculine, "milk", "latte"),
    mass(Drink, Masculine, "wine", "vino"),
    mass(Drink, Masculine, "coffee", "caffè"),
    mass(Drink, Masculine, "tea", "tè"),
    mass(Drink, Feminine, "beer", "birra"),
    m(Thing, ["book", "books"], ["libro", "libri"]),
    f(Thing, ["letter", "letters"], ["lettera", "lettere"]),
    f(Thing, ["key", "keys"], ["chiave", "chiavi"]),
    m(Thing, ["umbrella", "umbrellas"], ["ombrello", "ombrelli"]),
    m(Thing, ["mirror", "mirrors"], ["specchio", "specchi"]),
    m(Thing, ["clock", "clocks"], ["orologio", "orologi"]),
    m(Thing, ["gift", "gifts"], ["regalo", "regali"]),
    m(Thing, ["hat", "hats"], ["cappello", "cappelli"]),
    f(Thing, ["shirt", "shirts"], ["camicia", "camicie"]),
    f(Thing, ["shoe", "shoes"], ["scarpa", "scarpe"]),
    f(Thing, ["photograph", "photographs"], ["fotografia", "fotografie"]),
    f(Thing, ["pen", "pens"], ["penna", "penne"]),
    m(Thing, ["phone", "phones"], ["telefono", "telefoni"]),
    m(Thing, ["computer", "computers"], ["computer", "computer"]),
    f(Container, ["box", "boxes"], ["scatola", "scatole"]),
    f(Container, ["bag", "bags"], ["borsa", "borse"]),
    m(Container, ["backpack", "backpacks"], ["zaino", "zaini"]),
    m(Container, ["drawer", "drawers"], ["cassetto", "cassetti"]),
    m(Surface, ["table", "tables"], ["tavolo", "tavoli"]),
    f(Surface, ["chair", "chairs"], ["sedia", "sedie"]),
    m(Surface, ["shelf", "shelves"], ["scaffale", "scaffali"]),
    f(Part, ["door", "doors"], ["porta", "porte"]),
    f(Part, ["window", "windows"], ["finestra", "finestre"]),
    m(Place, ["market", "markets"], ["mercato", "mercati"]),
    m(Place, ["museum", "museums"], ["museo", "musei"]),
    m(Place, ["park", "parks"], ["parco", "parchi"]),
    m(Place, ["garden", "gardens"], ["giardino", "giardini"]),
    f(Place, ["station", "stations"], ["stazione", "stazioni"]),
    f(Place, ["school", "schools"], ["scuola", "scuole"]),
    f(Place, ["church", "churches"], ["chiesa", "chiese"]),
    m(Place, ["hotel", "hotels"], ["albergo", "alberghi"]),
    m(Place, ["hospital", "hospitals"], ["ospedale", "ospedali"]),
    m(Place, ["stadium", "stadiums"], ["stadio", "stadi"]),
    m(Place, ["office", "offices"], ["ufficio", "uffici"]),
    m(Place, ["zoo", "zoos"], ["zoo", "zoo"]),
    m(Place, ["restaurant", "restaurants"], ["ristorante", "ristoranti"]),
    m(Place, ["bathroom", "bathrooms"], ["bagno", "bagni"]),
    m(Place, ["airport", "airports"], ["aeroporto", "aeroporti"]),
    f(Property, ["house", "houses"], ["casa", "case"]),
    f(Property, ["car", "cars"], ["macchina", "macchine"]),
];

/// Position and form of an adjective with its noun in Italian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Position {
    /// After the noun, the default.
    After,
    /// Before the noun, in its full form.
    Before,
    /// Before the noun, shortened like the definite article: `bel, bello, bell', bei, begli`.
    BeforeLikeDefinite,
    /// Before the noun, shortened like the indefinite article: `buon, buono`.
    BeforeLikeIndefinite,
    /// Predicate only, after `to be`.
    Predicate,
}

/// Adjective with its forms.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Adjective {
    pub(super) english: &'static str,
    /// Comparative: `bigger`, `more famous`; `None` if comparisons are unusual.
    pub(super) comparative: Option<&'static str>,
    /// Masculine singular, feminine singular, masculine plural, feminine plural.
    pub(super) italian: [&'static str; 4],
    pub(super) position: Position,
    /// Kinds of nouns that it can describe.
    pub(super) kinds: &'static [Kind],
}

/// Adjective without comparative.
const fn adjective(
    english: &'static str,
    italian: [&'static str; 4],
    position: Position,
    kinds: &'static [Kind],
) -> Adjective {
    Adjective { english, comparative: None, italian, position, kinds }
}

/// Adjective with a comparative.
const fn graded(
    english: &'static str,
    comparative: &'static str,
    italian: [&'static str; 4],
    position: Position,
    kinds: &'static [Kind],
) -> Adjective {
    Adjective { english, comparative: Some(comparative), italian, position, kinds }
}

use Position::{After, Before, BeforeLikeDefinite, BeforeLikeIndefinite, Predicate};

/// People, including relatives.
pub(super) static PEOPLE: &[Kind] = &[Family, Person];
/// Kinds of nouns with a color.
static COLORED: &[Kind] = &[Thing, Container, Surface, Part, Property];
/// Kinds of nouns with a size and an age.
static SIZED: &[Kind] = &[Animal, Thing, Container, Surface, Part, Place, Property];

/// All adjectives.
pub(super) static ADJECTIVES: &[Adjective] = &[
    graded(
        "beautiful",
        "more beautiful",
        ["bello", "bella", "belli", "belle"],
        BeforeLikeDefinite,
        &[Person, Animal, Thing, Container, Surface, Place, Property],
    ),
    adjective(
        "good",
        ["buono", "buona", "buoni", "buone"],
        BeforeLikeIndefinite,
        &[Person, Animal, Food, Dish, Drink],
    ),
    graded("big", "bigger", ["grande", "grande", "grandi", "grandi"], Before, SIZED),
    graded("small", "smaller", ["piccolo", "piccola", "piccoli", "piccole"], Before, SIZED),
    graded(
        "old",
        "older",
        ["vecchio", "vecchia", "vecchi", "vecchie"],
        Before,
        &[Family, Person, Animal, Thing, Container, Surface, Part, Place, Property],
    ),
    adjective(
        "new",
        ["nuovo", "nuova", "nuovi", "nuove"],
        Before,
        &[Thing, Container, Surface, Part, Place, Property],
    ),
    adjective("red", ["rosso", "rossa", "rossi", "rosse"], After, COLORED),
    adjective("white", ["bianco", "bianca", "bianchi", "bianche"], After, COLORED),
    adjective("black", ["nero", "nera", "neri", "nere"], After, COLORED),
    adjective("green", ["verde", "verde", "verdi", "verdi"], After, COLORED),
    adjective("yellow", ["giallo", "gialla", "gialli", "gialle"], After, COLORED),
    graded(
        "expensive",
        "more expensive",
        ["caro", "cara", "cari", "care"],
        After,
        &[Food, Dish, Drink, Thing, Container, Surface, Property],
    ),
    graded(
        "heavy",
        "heavier",
        ["pesante", "pesante", "pesanti", "pesanti"],
        After,
        &[Thing, Container, Surface, Part],
    ),
    adjective(
        "dirty",
        ["sporco", "sporca", "sporchi", "sporche"],
        After,
        &[Animal, Container, Surface, Part, Place, Property],
    ),
    graded("young", "younger", ["giovane", "giovane", "giovani", "giovani"], After, PEOPLE),
    graded("tall", "taller", ["alto", "alta", "alti", "alte"], After, PEOPLE),
    adjective("rich", ["ricco", "ricca", "ricchi", "ricche"], After, PEOPLE),
    adjective("kind", ["gentile", "gentile", "gentili", "gentili"], After, PEOPLE),
    graded(
        "famous",
        "more famous",
        ["famoso", "famosa", "famosi", "famose"],
        After,
        &[Family, Person, Place],
    ),
    adjective(
        "Italian",
        ["italiano", "italiana", "italiani", "italiane"],
        After,
        &[Person, Dish, Drink, Thing],
    ),
    adjective("fresh", ["fresco", "fresca", "freschi", "fresche"], After, &[Food]),
    adjective("hot", ["caldo", "calda", "caldi", "calde"], After, &[Drink]),
    adjective("cold", ["freddo", "fredda", "freddi", "fredde"], After, &[Drink]),
    adjective("modern", ["moderno", "moderna", "moderni", "moderne"], After, &[Place, Property]),
    adjective(
        "quiet",
        ["tranquillo", "tranquilla", "tranquilli", "tranquille"],
        After,
        &[Place, Animal],
    ),
    adjective("closed", ["chiuso", "chiusa", "chiusi", "chiuse"], After, &[Part, Container, Place]),
    adjective("open", ["aperto", "aperta", "aperti", "aperte"], After, &[Part, Container, Place]),
    adjective("tired", ["stanco", "stanca", "stanchi", "stanche"], Predicate, PEOPLE),
    adjective("happy", ["felice", "felice", "felici", "felici"], Predicate, PEOPLE),
    adjective("sad", ["triste", "triste", "tristi", "tristi"], Predicate, PEOPLE),
    adjective("sick", ["malato", "malata", "malati", "malate"], Predicate, PEOPLE),
    adjective("ready", ["pronto", "pronta", "pronti", "pronte"], Predicate, PEOPLE),
];

/// Possessive: English word, and Italian forms in the order of [`Adjective::italian`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Possessor {
    pub(super) english: &'static str,
    pub(super) italian: [&'static str; 4],
}

/// Possessives. `his` and `her` are one word in Italian; `your` has one owner.
pub(super) static POSSESSORS: &[Possessor] = &[
    Possessor { english: "my", italian: ["mio", "mia", "miei", "mie"] },
    Possessor { english: "your", italian: ["tuo", "tua", "tuoi", "tue"] },
    Possessor { english: "his", italian: ["suo", "sua", "suoi", "sue"] },
    Possessor { english: "her", italian: ["suo", "sua", "suoi", "sue"] },
    Possessor { english: "our", italian: ["nostro", "nostra", "nostri", "nostre"] },
    Possessor { english: "their", italian: ["loro", "loro", "loro", "loro"] },
];

/// Word or phrase with the same form in every sentence.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Fixed {
    pub(super) english: &'static str,
    pub(super) italian: &'static str,
}

/// Constructor for the tables below.
pub(super) const fn fixed(english: &'static str, italian: &'static str) -> Fixed {
    Fixed { english, italian }
}

/// Numerals from two, for counting and for the hours.
pub(super) static NUMERALS: &[Fixed] = &[
    fixed("two", "due"),
    fixed("three", "tre"),
    fixed("four", "quattro"),
    fixed("five", "cinque"),
    fixed("six", "sei"),
    fixed("seven", "sette"),
    fixed("eight", "otto"),
    fixed("nine", "nove"),
    fixed("ten", "dieci"),
    fixed("eleven", "undici"),
    fixed("twelve", "dodici"),
    fixed("thirteen", "tredici"),
    fixed("fourteen", "quattordici"),
    fixed("fifteen", "quindici"),
    fixed("sixteen", "sedici"),
    fixed("seventeen", "diciassette"),
    fixed("eighteen", "diciotto"),
    fixed("nineteen", "diciannove"),
    fixed("twenty", "venti"),
];

/// Tens for ages: the numeral loses its vowel before `anni`.
pub(super) static TENS: &[Fixed] = &[
    fixed("twenty", "vent'"),
    fixed("thirty", "trent'"),
    fixed("forty", "quarant'"),
    fixed("fifty", "cinquant'"),
    fixed("sixty", "sessant'"),
    fixed("seventy", "settant'"),
    fixed("eighty", "ottant'"),
    fixed("ninety", "novant'"),
];

/// Places without a preposition.
pub(super) static SPOTS: &[Fixed] =
    &[fixed("here", "qui"), fixed("there", "lì"), fixed("at home", "a casa")];

/// Times of an action in progress.
pub(super) static TIMES_NOW: &[Fixed] = &[fixed("now", "adesso"), fixed("today", "oggi")];
/// Times of a habit.
pub(super) static TIMES_HABIT: &[Fixed] = &[fixed("every day", "ogni giorno")];
/// Times of the past.
pub(super) static TIMES_PAST: &[Fixed] =
    &[fixed("yesterday", "ieri"), fixed("this morning", "stamattina")];
/// Times of the future.
pub(super) static TIMES_FUTURE: &[Fixed] =
    &[fixed("tomorrow", "domani"), fixed("tonight", "stasera")];
/// Days, past or future; Italian uses no preposition.
pub(super) static DAYS: &[Fixed] = &[
    fixed("on Monday", "lunedì"),
    fixed("on Tuesday", "martedì"),
    fixed("on Wednesday", "mercoledì"),
    fixed("on Thursday", "giovedì"),
    fixed("on Friday", "venerdì"),
    fixed("on Saturday", "sabato"),
    fixed("on Sunday", "domenica"),
];

/// Weather condition.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Sky {
    /// Words after `it is`.
    pub(super) english: &'static str,
    /// Forms in present, imperfect and future.
    pub(super) italian: [&'static str; 3],
}

/// All weather conditions.
pub(super) static SKIES: &[Sky] = &[
    Sky { english: "cold", italian: ["fa freddo", "faceva freddo", "farà freddo"] },
    Sky { english: "hot", italian: ["fa caldo", "faceva caldo", "farà caldo"] },
    Sky { english: "warm", italian: ["fa caldo", "faceva caldo", "farà caldo"] },
    Sky { english: "cloudy", italian: ["è nuvoloso", "era nuvoloso", "sarà nuvoloso"] },
    Sky { english: "raining", italian: ["piove", "pioveva", "pioverà"] },
    Sky { english: "snowing", italian: ["nevica", "nevicava", "nevicherà"] },
    Sky { english: "windy", italian: ["c'è vento", "c'era vento", "ci sarà vento"] },
    Sky { english: "sunny", italian: ["c'è il sole", "c'era il sole", "ci sarà il sole"] },
];

/// State of a person or animal, `to be` with an adjective in English.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) english: &'static str,
    pub(super) verb: StateVerb,
    /// Words after the verb.
    pub(super) italian: &'static str,
    /// Form with `very`, if usual.
    pub(super) very: Option<&'static str>,
}

/// Italian verb of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StateVerb {
    Avere,
    Stare,
}

use StateVerb::{Avere, Stare};

const fn state(
    english: &'static str,
    verb: StateVerb,
    italian: &'static str,
    very: Option<&'static str>,
) -> State {
    State { english, verb, italian, very }
}

/// All states.
pub(super) static STATES: &[State] = &[
    state("hungry", Avere, "fame", Some("molta fame")),
    state("thirsty", Avere, "sete", Some("molta sete")),
    state("cold", Avere, "freddo", Some("molto freddo")),
    state("hot", Avere, "caldo", Some("molto caldo")),
    state("sleepy", Avere, "sonno", Some("molto sonno")),
    state("afraid", Avere, "paura", Some("molta paura")),
    state("in a hurry", Avere, "fretta", None),
    state("right", Avere, "ragione", None),
    state("wrong", Avere, "torto", None),
    state("fine", Stare, "bene", None),
    state("well", Stare, "bene", None),
];
