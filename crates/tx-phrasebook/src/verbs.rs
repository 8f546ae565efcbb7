//! Verbs of the phrasebook with all forms that the grammar uses.
//!
//! Verbs whose English past equals the present (`read`, `put`) are excluded, because they would
//! have two translations.

use super::lexicon::Kind::{
    self, Animal, Container, Dish, Drink, Family, Food, Part, Person, Place, Property, Surface,
    Thing,
};
use super::lexicon::PEOPLE;

/// Preposition, with its English and Italian word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Preposition {
    /// `to`, `a`.
    To,
    /// `at`, `a`.
    At,
    /// `from`, `da`.
    From,
    /// `in`, `in`.
    In,
    /// `on`, `su`.
    On,
    /// `of`, `di`.
    Of,
    /// `than`, `di`.
    Than,
    /// `with`, `con`.
    With,
    /// `for`, `per`.
    For,
}

/// Auxiliary of the passato prossimo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Auxiliary {
    /// `avere`; the participle does not change.
    Avere,
    /// `essere`; the participle agrees with the subject.
    Essere,
}

/// Complements of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    /// Object of one of these kinds.
    Object(&'static [Kind]),
    /// Language as object.
    Language(LanguageArticle),
    /// Object of one of these kinds, and a person as recipient.
    Gift(&'static [Kind]),
    /// Place after this preposition; also a city if `city`.
    Place { preposition: Preposition, city: bool },
}

/// Article of a language after the verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LanguageArticle {
    /// No article: `parlo italiano`.
    Without,
    /// Definite article: `capisco l'italiano`.
    With,
}

/// Verb with its forms.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Verb {
    /// Base form, third person singular, past, `-ing` form.
    pub(super) english: [&'static str; 4],
    /// Second English word, such as `for` in `look for`.
    pub(super) particle: Option<&'static str>,
    pub(super) infinitive: &'static str,
    /// Present: `io, tu, lui, noi, voi, loro`.
    pub(super) present: [&'static str; 6],
    /// Stem of the future.
    pub(super) future: &'static str,
    /// Participle in the masculine singular, ending in `-o`.
    pub(super) participle: &'static str,
    pub(super) gerund: &'static str,
    pub(super) auxiliary: Auxiliary,
    pub(super) frame: Frame,
    /// Whether `I am …-ing` is used.
    pub(super) progressive: bool,
    /// Whether the simple past is used; the past of a state would have two translations.
    pub(super) past: bool,
    /// Whether the verb can follow `can`, `must` and `want`.
    pub(super) modal: bool,
    /// Whether the object is optional: `I am eating.`
    pub(super) alone: bool,
    /// Whether a pronoun can be the object: `I help you.`
    pub(super) persons: bool,
    /// Whether an object without article is generic: `I love cats`, `amo i gatti`.
    pub(super) generic: bool,
    /// Whether animals can be the subject.
    pub(super) animals: bool,
    /// Preposition of an optional adjunct: location, company or beneficiary.
    pub(super) extra: Option<Preposition>,
}

/// Defaults for the table of verbs.
const BASE: Verb = Verb {
    english: [""; 4],
    particle: None,
    infinitive: "",
    present: [""; 6],
    future: "",
    participle: "",
    gerund: "",
    auxiliary: Auxiliary::Avere,
    frame: Frame::Object(&[]),
    progressive: true,
    past: true,
    modal: true,
    alone: false,
    persons: false,
    generic: false,
    animals: false,
    extra: None,
};

/// All verbs.
pub(super) static VERBS: &[Verb] = &[
    Verb {
        english: ["eat", "eats", "ate", "eating"],
        infinitive: "mangiare",
        present: ["mangio", "mangi", "mangia", "mangiamo", "mangiate", "mangiano"],
        future: "manger",
        participle: "mangiato",
        gerund: "mangiando",
        frame: Frame::Object(&[Food, Dish]),
        animals: true,
        extra: Some(Preposition::In),
        alone: true,
        ..BASE
    },
    Verb {
        english: ["drink", "drinks", "drank", "drinking"],
        infinitive: "bere",
        present: ["bevo", "bevi", "beve", "beviamo", "bevete", "bevono"],
        future: "berr",
        participle: "bevuto",
        gerund: "bevendo",
        frame: Frame::Object(&[Drink]),
        animals: true,
        extra: Some(Preposition::With),
        alone: true,
        ..BASE
    },
    Verb {
        english: ["buy", "buys", "bought", "buying"],
        infinitive: "comprare",
        present: ["compro", "compri", "compra", "compriamo", "comprate", "comprano"],
        future: "comprer",
        participle: "comprato",
        gerund: "comprando",
        frame: Frame::Object(&[Food, Dish, Drink, Thing, Container, Surface, Property]),
        extra: Some(Preposition::For),
        ..BASE
    },
    Verb {
        english: ["find", "finds", "found", "finding"],
        infinitive: "trovare",
        present: ["trovo", "trovi", "trova", "troviamo", "trovate", "trovano"],
        future: "trover",
        participle: "trovato",
        gerund: "trovando",
        frame: Frame::Object(&[Thing, Container, Animal]),
        progressive: false,
        extra: Some(Preposition::In),
        ..BASE
    },
    Verb {
        english: ["lose", "loses", "lost", "losing"],
        infinitive: "perdere",
        present: ["perdo", "perdi", "perde", "perdiamo", "perdete", "perdono"],
        future: "perder",
        participle: "perso",
        gerund: "perdendo",
        frame: Frame::Object(&[Thing, Container]),
        progressive: false,
        extra: Some(Preposition::In),
        ..BASE
    },
    Verb {
        english: ["see", "sees", "saw", "seeing"],
        infinitive: "vedere",
        present: ["vedo", "vedi", "vede", "vediamo", "vedete", "vedono"],
        future: "vedr",
        participle: "visto",
        gerund: "vedendo",
        frame: Frame::Object(&[
            Family, Person, Animal, Food, Thing, Container, Surface, Part, Place, Property,
        ]),
        progressive: false,
        animals: true,
        persons: true,
        ..BASE
    },
    Verb {
        english: ["look", "looks", "looked", "looking"],
        particle: Some("for"),
        infinitive: "cercare",
        present: ["cerco", "cerchi", "cerca", "cerchiamo", "cercate", "cercano"],
        future: "cercher",
        participle: "cercato",
        gerund: "cercando",
        frame: Frame::Object(&[Person, Animal, Thing, Container, Place]),
        persons: true,
        ..BASE
    },
    Verb {
        english: ["open", "opens", "opened", "opening"],
        infinitive: "aprire",
        present: ["apro", "apri", "apre", "apriamo", "aprite", "aprono"],
        future: "aprir",
        participle: "aperto",
        gerund: "aprendo",
        frame: Frame::Object(&[Part, Container]),
        ..BASE
    },
    Verb {
        english: ["clean", "cleans", "cleaned", "cleaning"],
        infinitive: "pulire",
        present: ["pulisco", "pulisci", "pulisce", "puliamo", "pulite", "puliscono"],
        future: "pulir",
        participle: "pulito",
        gerund: "pulendo",
        frame: Frame::Object(&[Container, Surface, Part, Property]),
        extra: Some(Preposition::With),
        ..BASE
    },
    Verb {
        english: ["meet", "meets", "met", "meeting"],
        infinitive: "incontrare",
        present: ["incontro", "incontri", "incontra", "incontriamo", "incontrate", "incontrano"],
        future: "incontrer",
        participle: "incontrato",
        gerund: "incontrando",
        frame: Frame::Object(PEOPLE),
        progressive: false,
        extra: Some(Preposition::In),
        persons: true,
        ..BASE
    },
    Verb {
        english: ["help", "helps", "helped", "helping"],
        infinitive: "aiutare",
        present: ["aiuto", "aiuti", "aiuta", "aiutiamo", "aiutate", "aiutano"],
        future: "aiuter",
        participle: "aiutato",
        gerund: "aiutando",
        frame: Frame::Object(PEOPLE),
        persons: true,
        ..BASE
    },
    Verb {
        english: ["visit", "visits", "visited", "visiting"],
        infinitive: "visitare",
        present: ["visito", "visiti", "visita", "visitiamo", "visitate", "visitano"],
        future: "visiter",
        participle: "visitato",
        gerund: "visitando",
        frame: Frame::Object(&[Place]),
        extra: Some(Preposition::With),
        ..BASE
    },
    Verb {
        english: ["have", "has", "had", "having"],
        infinitive: "avere",
        present: ["ho", "hai", "ha", "abbiamo", "avete", "hanno"],
        future: "avr",
        participle: "avuto",
        gerund: "avendo",
        frame: Frame::Object(&[Animal, Food, Drink, Thing, Container, Surface, Property]),
        progressive: false,
        past: false,
        ..BASE
    },
    Verb {
        english: ["give", "gives", "gave", "giving"],
        infinitive: "dare",
        present: ["do", "dai", "dà", "diamo", "date", "danno"],
        future: "dar",
        participle: "dato",
        gerund: "dando",
        frame: Frame::Gift(&[Food, Drink, Thing, Container]),
        ..BASE
    },
    Verb {
        english: ["bring", "brings", "brought", "bringing"],
        infinitive: "portare",
        present: ["porto", "porti", "porta", "portiamo", "portate", "portano"],
        future: "porter",
        participle: "portato",
        gerund: "portando",
        frame: Frame::Gift(&[Food, Dish, Drink, Thing]),
        ..BASE
    },
    Verb {
        english: ["go", "goes", "went", "going"],
        infinitive: "andare",
        present: ["vado", "vai", "va", "andiamo", "andate", "vanno"],
        future: "andr",
        participle: "andato",
        gerund: "andando",
        auxiliary: Auxiliary::Essere,
        frame: Frame::Place { preposition: Preposition::To, city: true },
        animals: true,
        extra: Some(Preposition::With),
        ..BASE
    },
    Verb {
        english: ["return", "returns", "returned", "returning"],
        infinitive: "tornare",
        present: ["torno", "torni", "torna", "torniamo", "tornate", "tornano"],
        future: "torner",
        participle: "tornato",
        gerund: "tornando",
        auxiliary: Auxiliary::Essere,
        frame: Frame::Place { preposition: Preposition::From, city: true },
        extra: Some(Preposition::With),
        ..BASE
    },
    Verb {
        english: ["arrive", "arrives", "arrived", "arriving"],
        infinitive: "arrivare",
        present: ["arrivo", "arrivi", "arriva", "arriviamo", "arrivate", "arrivano"],
        future: "arriver",
        participle: "arrivato",
        gerund: "arrivando",
        auxiliary: Auxiliary::Essere,
        frame: Frame::Place { preposition: Preposition::At, city: false },
        extra: Some(Preposition::With),
        alone: true,
        ..BASE
    },
    Verb {
        english: ["stay", "stays", "stayed", "staying"],
        infinitive: "restare",
        present: ["resto", "resti", "resta", "restiamo", "restate", "restano"],
        future: "rester",
        participle: "restato",
        gerund: "restando",
        auxiliary: Auxiliary::Essere,
        frame: Frame::Place { preposition: Preposition::In, city: true },
        progressive: false,
        animals: true,
        extra: Some(Preposition::With),
        ..BASE
    },
    Verb {
        english: ["sleep", "sleeps", "slept", "sleeping"],
        infinitive: "dormire",
        present: ["dormo", "dormi", "dorme", "dormiamo", "dormite", "dormono"],
        future: "dormir",
        participle: "dormito",
        gerund: "dormendo",
        frame: Frame::Place { preposition: Preposition::In, city: true },
        animals: true,
        alone: true,
        ..BASE
    },
    Verb {
        english: ["work", "works", "worked", "working"],
        infinitive: "lavorare",
        present: ["lavoro", "lavori", "lavora", "lavoriamo", "lavorate", "lavorano"],
        future: "lavorer",
        participle: "lavorato",
        gerund: "lavorando",
        frame: Frame::Place { preposition: Preposition::In, city: true },
        extra: Some(Preposition::With),
        alone: true,
        ..BASE
    },
    Verb {
        english: ["want", "wants", "wanted", "wanting"],
        infinitive: "volere",
        present: ["voglio", "vuoi", "vuole", "vogliamo", "volete", "vogliono"],
        future: "vorr",
        participle: "voluto",
        gerund: "volendo",
        frame: Frame::Object(&[Animal, Food, Dish, Drink, Thing, Container, Property]),
        progressive: false,
        past: false,
        modal: false,
        ..BASE
    },
    Verb {
        english: ["love", "loves", "loved", "loving"],
        infinitive: "amare",
        present: ["amo", "ami", "ama", "amiamo", "amate", "amano"],
        future: "amer",
        participle: "amato",
        gerund: "amando",
        frame: Frame::Object(&[Family, Person, Animal, Food, Dish, Drink, Place, Property]),
        progressive: false,
        persons: true,
        generic: true,
        ..BASE
    },
    Verb {
        english: ["speak", "speaks", "spoke", "speaking"],
        infinitive: "parlare",
        present: ["parlo", "parli", "parla", "parliamo", "parlate", "parlano"],
        future: "parler",
        participle: "parlato",
        gerund: "parlando",
        frame: Frame::Language(LanguageArticle::Without),
        alone: true,
        extra: Some(Preposition::With),
        ..BASE
    },
    Verb {
        english: ["understand", "understands", "understood", "understanding"],
        infinitive: "capire",
        present: ["capisco", "capisci", "capisce", "capiamo", "capite", "capiscono"],
        future: "capir",
        participle: "capito",
        gerund: "capendo",
        frame: Frame::Language(LanguageArticle::With),
        progressive: false,
        alone: true,
        persons: true,
        ..BASE
    },
    Verb {
        english: ["live", "lives", "lived", "living"],
        infinitive: "vivere",
        present: ["vivo", "vivi", "vive", "viviamo", "vivete", "vivono"],
        future: "vivr",
        participle: "vissuto",
        gerund: "vivendo",
        frame: Frame::Place { preposition: Preposition::In, city: true },
        animals: true,
        extra: Some(Preposition::With),
        ..BASE
    },
];

/// Modal verb before an infinitive.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Modal {
    pub(super) english: &'static str,
    /// Negation; `None` for a full verb, which uses `do` in negations and questions and is followed
    /// by `to`.
    pub(super) denied: Option<&'static str>,
    /// Present: `io, tu, lui, noi, voi, loro`.
    pub(super) italian: [&'static str; 6],
}

/// The modal verbs.
pub(super) static MODALS: &[Modal] = &[
    Modal {
        english: "can",
        denied: Some("cannot"),
        italian: ["posso", "puoi", "può", "possiamo", "potete", "possono"],
    },
    Modal {
        english: "must",
        denied: Some("must not"),
        italian: ["devo", "devi", "deve", "dobbiamo", "dovete", "devono"],
    },
    Modal {
        english: "want",
        denied: None,
        italian: ["voglio", "vuoi", "vuole", "vogliamo", "volete", "vogliono"],
    },
];

/// `avere`: present, imperfect, future.
pub(super) static AVERE: [[&str; 6]; 3] = [
    ["ho", "hai", "ha", "abbiamo", "avete", "hanno"],
    ["avevo", "avevi", "aveva", "avevamo", "avevate", "avevano"],
    ["avrò", "avrai", "avrà", "avremo", "avrete", "avranno"],
];
/// `essere`: present, imperfect, future.
pub(super) static ESSERE: [[&str; 6]; 3] = [
    ["sono", "sei", "è", "siamo", "siete", "sono"],
    ["ero", "eri", "era", "eravamo", "eravate", "erano"],
    ["sarò", "sarai", "sarà", "saremo", "sarete", "saranno"],
];
/// `stare` in the present.
pub(super) static STARE: [&str; 6] = ["sto", "stai", "sta", "stiamo", "state", "stanno"];
/// `venire` in the present.
pub(super) static VENIRE: [&str; 6] = ["vengo", "vieni", "viene", "veniamo", "venite", "vengono"];
/// `chiamarsi` in the present.
pub(super) static CHIAMARSI: [&str; 6] =
    ["mi chiamo", "ti chiami", "si chiama", "ci chiamiamo", "vi chiamate", "si chiamano"];
/// Endings of the future, the same for all verbs.
pub(super) static FUTURE: [&str; 6] = ["ò", "ai", "à", "emo", "ete", "anno"];
