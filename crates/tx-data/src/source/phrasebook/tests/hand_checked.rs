//! Pairs written down by hand, from knowing Italian; none was copied from the program.

use super::super::sentence::Aspect::{Future, Habit, Past, Present, Progressive};
use super::super::sentence::Force::{Asked, Denied, Stated};
use super::super::sentence::Frequency::{Always, Never, Often};
use super::super::sentence::Minutes::{Half, Quarter, Sharp};
use super::super::sentence::{Sentence, Tense};
use super::super::verbs::Preposition::{For, In, To, With};
use super::super::{english, italian};
use super::build::{be, compare, cost, modal, say, there, weather, where_is, wish};

/// Checks a sentence against both its wordings.
fn check(pairs: Vec<(Sentence, &str, &str)>) {
    for (sentence, source, target) in pairs {
        assert_eq!(english::sentence(&sentence), source);
        assert_eq!(italian::sentence(&sentence), target, "for `{source}`");
    }
}

/// A stated present clause with an object.
fn plain(who: &str, verb: &str, object: &str) -> Sentence {
    say(who, verb, Present, Stated).object(object).end()
}

#[test]
fn articles() {
    check(vec![
        (plain("I", "see", "the book"), "I see the book.", "Vedo il libro."),
        (plain("I", "see", "the student"), "I see the student.", "Vedo lo studente."),
        (plain("I", "see", "the uncle"), "I see the uncle.", "Vedo lo zio."),
        (plain("I", "see", "the psychologists"), "I see the psychologists.", "Vedo gli psicologi."),
        (plain("I", "see", "the man"), "I see the man.", "Vedo l'uomo."),
        (plain("you", "drink", "the water"), "You drink the water.", "Bevi l'acqua."),
        (plain("you", "drink", "the beer"), "You drink the beer.", "Bevi la birra."),
        (plain("we", "see", "the friends"), "We see the friends.", "Vediamo gli amici."),
        (plain("we", "see", "the dogs"), "We see the dogs.", "Vediamo i cani."),
        (plain("we", "eat", "the oranges"), "We eat the oranges.", "Mangiamo le arance."),
        (plain("they", "find", "a hat"), "They find a hat.", "Trovano un cappello."),
        (plain("they", "find", "an umbrella"), "They find an umbrella.", "Trovano un ombrello."),
        (plain("they", "find", "a backpack"), "They find a backpack.", "Trovano uno zaino."),
        (plain("they", "find", "a key"), "They find a key.", "Trovano una chiave."),
        (plain("you all", "eat", "an orange"), "You all eat an orange.", "Mangiate un'arancia."),
        (plain("you all", "help", "an actress"), "You all help an actress.", "Aiutate un'attrice."),
    ]);
}

#[test]
fn partitives_and_their_absence() {
    let no_books = say("I", "have", Present, Denied).object("any books").end();
    let no_wine = say("she", "drink", Habit(Never), Stated).object("any wine").end();
    check(vec![
        (plain("he", "eat", "some bread"), "He eats some bread.", "Lui mangia del pane."),
        (plain("he", "eat", "some sugar"), "He eats some sugar.", "Lui mangia dello zucchero."),
        (plain("she", "drink", "some water"), "She drinks some water.", "Lei beve dell'acqua."),
        (plain("she", "eat", "some meat"), "She eats some meat.", "Lei mangia della carne."),
        (plain("I", "buy", "some gifts"), "I buy some gifts.", "Compro dei regali."),
        (plain("I", "meet", "some uncles"), "I meet some uncles.", "Incontro degli zii."),
        (plain("I", "buy", "some shoes"), "I buy some shoes.", "Compro delle scarpe."),
        (no_books, "I do not have any books.", "Non ho libri."),
        (no_wine, "She never drinks any wine.", "Lei non beve mai vino."),
    ]);
}

#[test]
fn demonstratives() {
    check(vec![
        (plain("I", "see", "this mirror"), "I see this mirror.", "Vedo questo specchio."),
        (plain("I", "see", "these keys"), "I see these keys.", "Vedo queste chiavi."),
        (plain("I", "see", "that dog"), "I see that dog.", "Vedo quel cane."),
        (plain("I", "see", "that squirrel"), "I see that squirrel.", "Vedo quello scoiattolo."),
        (plain("I", "see", "that hotel"), "I see that hotel.", "Vedo quell'albergo."),
        (plain("I", "see", "that orange"), "I see that orange.", "Vedo quell'arancia."),
        (plain("I", "see", "that church"), "I see that church.", "Vedo quella chiesa."),
        (plain("I", "see", "those boys"), "I see those boys.", "Vedo quei ragazzi."),
        (plain("I", "see", "those shelves"), "I see those shelves.", "Vedo quegli scaffali."),
        (plain("I", "see", "those clocks"), "I see those clocks.", "Vedo quegli orologi."),
        (plain("I", "see", "those houses"), "I see those houses.", "Vedo quelle case."),
    ]);
}

#[test]
fn adjectives() {
    check(vec![
        (plain("I", "see", "a beautiful book"), "I see a beautiful book.", "Vedo un bel libro."),
        (
            plain("I", "see", "some beautiful books"),
            "I see some beautiful books.",
            "Vedo dei bei libri.",
        ),
        (
            plain("I", "see", "the beautiful mirror"),
            "I see the beautiful mirror.",
            "Vedo il bello specchio.",
        ),
        (
            plain("I", "see", "a beautiful umbrella"),
            "I see a beautiful umbrella.",
            "Vedo un bell'ombrello.",
        ),
        (
            plain("I", "see", "the beautiful backpacks"),
            "I see the beautiful backpacks.",
            "Vedo i begli zaini.",
        ),
        (
            plain("I", "see", "these beautiful houses"),
            "I see these beautiful houses.",
            "Vedo queste belle case.",
        ),
        (plain("you", "have", "a good dog"), "You have a good dog.", "Hai un buon cane."),
        (
            plain("you", "drink", "this good coffee"),
            "You drink this good coffee.",
            "Bevi questo buon caffè.",
        ),
        (
            plain("you", "help", "a good student"),
            "You help a good student.",
            "Aiuti un buono studente.",
        ),
        (plain("you", "help", "a good friend"), "You help a good friend.", "Aiuti un buon amico."),
        (plain("you", "eat", "a good cake"), "You eat a good cake.", "Mangi una buona torta."),
        (
            plain("we", "clean", "the two red houses"),
            "We clean the two red houses.",
            "Puliamo le due case rosse.",
        ),
        (
            plain("we", "clean", "a small box"),
            "We clean a small box.",
            "Puliamo una piccola scatola.",
        ),
        (
            plain("we", "look", "some white shirts"),
            "We look for some white shirts.",
            "Cerchiamo delle camicie bianche.",
        ),
        (
            plain("we", "find", "the Italian book"),
            "We find the Italian book.",
            "Troviamo il libro italiano.",
        ),
    ]);
}

#[test]
fn possessives_and_owners() {
    check(vec![
        (plain("he", "see", "my mother"), "He sees my mother.", "Lui vede mia madre."),
        (plain("he", "see", "their mother"), "He sees their mother.", "Lui vede la loro madre."),
        (plain("he", "see", "my old aunt"), "He sees my old aunt.", "Lui vede la mia vecchia zia."),
        (plain("he", "see", "my dog"), "He sees my dog.", "Lui vede il mio cane."),
        (
            plain("he", "see", "your brothers"),
            "He sees your brothers.",
            "Lui vede i tuoi fratelli.",
        ),
        (plain("he", "see", "her uncle"), "He sees her uncle.", "Lui vede suo zio."),
        (plain("he", "see", "his friends"), "He sees his friends.", "Lui vede i suoi amici."),
        (
            plain("he", "see", "our two sisters"),
            "He sees our two sisters.",
            "Lui vede le nostre due sorelle.",
        ),
        (
            plain("she", "see", "my uncle's dog"),
            "She sees my uncle's dog.",
            "Lei vede il cane di mio zio.",
        ),
        (
            plain("she", "see", "the actress's house"),
            "She sees the actress's house.",
            "Lei vede la casa dell'attrice.",
        ),
        (
            plain("she", "see", "the student's old books"),
            "She sees the student's old books.",
            "Lei vede i vecchi libri dello studente.",
        ),
        (
            plain("she", "see", "the door of the museum"),
            "She sees the door of the museum.",
            "Lei vede la porta del museo.",
        ),
        (
            plain("she", "see", "the windows of that hotel"),
            "She sees the windows of that hotel.",
            "Lei vede le finestre di quell'albergo.",
        ),
    ]);
}

#[test]
fn numerals() {
    check(vec![
        (plain("I", "have", "two cats"), "I have two cats.", "Ho due gatti."),
        (plain("I", "find", "the eight keys"), "I find the eight keys.", "Trovo le otto chiavi."),
        (plain("I", "find", "the eight books"), "I find the eight books.", "Trovo gli otto libri."),
        (plain("I", "find", "the six mirrors"), "I find the six mirrors.", "Trovo i sei specchi."),
        (
            plain("I", "buy", "seventeen apples"),
            "I buy seventeen apples.",
            "Compro diciassette mele.",
        ),
        (
            plain("I", "buy", "twenty green shirts"),
            "I buy twenty green shirts.",
            "Compro venti camicie verdi.",
        ),
    ]);
}

#[test]
fn prepositions_contract_with_the_article() {
    let go = |place| say("we", "go", Present, Stated).place(place).end();
    let back = |place| say("they", "return", Present, Stated).place(place).end();
    let work = |place| say("I", "work", Present, Stated).place(place).end();
    let give = |who| say("I", "give", Present, Stated).object("the book").extra(To, who).end();
    let on = |place| there(Tense::Present, Stated, "a key", place);
    check(vec![
        (go("the market"), "We go to the market.", "Andiamo al mercato."),
        (go("the zoo"), "We go to the zoo.", "Andiamo allo zoo."),
        (go("the hospital"), "We go to the hospital.", "Andiamo all'ospedale."),
        (go("the station"), "We go to the station.", "Andiamo alla stazione."),
        (go("Rome"), "We go to Rome.", "Andiamo a Roma."),
        (go("a museum"), "We go to a museum.", "Andiamo a un museo."),
        (give("the boys"), "I give the book to the boys.", "Do il libro ai ragazzi."),
        (give("the students"), "I give the book to the students.", "Do il libro agli studenti."),
        (give("the girls"), "I give the book to the girls.", "Do il libro alle ragazze."),
        (give("my mother"), "I give the book to my mother.", "Do il libro a mia madre."),
        (back("the park"), "They return from the park.", "Tornano dal parco."),
        (back("the stadium"), "They return from the stadium.", "Tornano dallo stadio."),
        (back("the hotel"), "They return from the hotel.", "Tornano dall'albergo."),
        (back("the church"), "They return from the church.", "Tornano dalla chiesa."),
        (back("the gardens"), "They return from the gardens.", "Tornano dai giardini."),
        (back("the offices"), "They return from the offices.", "Tornano dagli uffici."),
        (back("the schools"), "They return from the schools.", "Tornano dalle scuole."),
        (back("Milan"), "They return from Milan.", "Tornano da Milano."),
        (work("the museum"), "I work in the museum.", "Lavoro nel museo."),
        (work("the zoo"), "I work in the zoo.", "Lavoro nello zoo."),
        (work("the office"), "I work in the office.", "Lavoro nell'ufficio."),
        (work("the school"), "I work in the school.", "Lavoro nella scuola."),
        (work("the parks"), "I work in the parks.", "Lavoro nei parchi."),
        (work("the hotels"), "I work in the hotels.", "Lavoro negli alberghi."),
        (work("the stations"), "I work in the stations.", "Lavoro nelle stazioni."),
        (work("Florence"), "I work in Florence.", "Lavoro a Firenze."),
        (on("the table"), "There is a key on the table.", "C'è una chiave sul tavolo."),
        (on("the shelf"), "There is a key on the shelf.", "C'è una chiave sullo scaffale."),
        (on("the chair"), "There is a key on the chair.", "C'è una chiave sulla sedia."),
        (on("the tables"), "There is a key on the tables.", "C'è una chiave sui tavoli."),
        (on("the shelves"), "There is a key on the shelves.", "C'è una chiave sugli scaffali."),
        (on("the chairs"), "There is a key on the chairs.", "C'è una chiave sulle sedie."),
    ]);
}

#[test]
fn tenses_of_verbs() {
    let went = |who| say(who, "go", Past, Stated).place("the market");
    check(vec![
        (
            went("my sisters").end(),
            "My sisters went to the market.",
            "Le mie sorelle sono andate al mercato.",
        ),
        (went("she").end(), "She went to the market.", "Lei è andata al mercato."),
        (went("he").end(), "He went to the market.", "Lui è andato al mercato."),
        (
            went("we").when("yesterday").end(),
            "We went to the market yesterday.",
            "Siamo andati al mercato ieri.",
        ),
        (
            say("the girls", "eat", Past, Stated).object("the cake").end(),
            "The girls ate the cake.",
            "Le ragazze hanno mangiato la torta.",
        ),
        (
            say("you", "open", Past, Denied).object("the windows").end(),
            "You did not open the windows.",
            "Non hai aperto le finestre.",
        ),
        (
            say("she", "arrive", Past, Asked).place("the station").when("on Sunday").end(),
            "Did she arrive at the station on Sunday?",
            "Lei è arrivata alla stazione domenica?",
        ),
        (
            say("you all", "buy", Future, Asked).object("some wine").when("tomorrow").end(),
            "Will you all buy some wine tomorrow?",
            "Comprerete del vino domani?",
        ),
        (
            say("we", "see", Future, Stated).object("the museum").when("tomorrow").first().end(),
            "Tomorrow we will see the museum.",
            "Domani vedremo il museo.",
        ),
        (
            say("I", "look", Future, Denied).object("the keys").end(),
            "I will not look for the keys.",
            "Non cercherò le chiavi.",
        ),
        (
            say("they", "drink", Progressive, Stated).object("some coffee").when("now").end(),
            "They are drinking some coffee now.",
            "Stanno bevendo del caffè adesso.",
        ),
        (
            say("I", "look", Progressive, Denied).object("your cat").end(),
            "I am not looking for your cat.",
            "Non sto cercando il tuo gatto.",
        ),
        (
            say("your brother", "sleep", Progressive, Asked).place("the garden").end(),
            "Is your brother sleeping in the garden?",
            "Tuo fratello sta dormendo nel giardino?",
        ),
    ]);
}

#[test]
fn questions_denials_modals_and_habits() {
    check(vec![
        (
            say("you", "drink", Present, Asked).object("the milk").when("every day").end(),
            "Do you drink the milk every day?",
            "Bevi il latte ogni giorno?",
        ),
        (
            say("the cat", "drink", Present, Denied).object("the milk").end(),
            "The cat does not drink the milk.",
            "Il gatto non beve il latte.",
        ),
        (
            say("I", "open", modal("can"), Denied).object("this box").end(),
            "I cannot open this box.",
            "Non posso aprire questa scatola.",
        ),
        (
            say("you", "bring", modal("can"), Asked).object("the wine").extra(To, "her aunt").end(),
            "Can you bring the wine to her aunt?",
            "Puoi portare il vino a sua zia?",
        ),
        (
            say("he", "eat", modal("want"), Denied).object("the meat").end(),
            "He does not want to eat the meat.",
            "Lui non vuole mangiare la carne.",
        ),
        (
            say("you all", "visit", modal("want"), Asked).object("the church").end(),
            "Do you all want to visit the church?",
            "Volete visitare la chiesa?",
        ),
        (
            say("my friend", "work", modal("must"), Stated).place("Venice").end(),
            "My friend must work in Venice.",
            "Il mio amico deve lavorare a Venezia.",
        ),
        (
            say("we", "meet", Habit(Often), Stated)
                .object("his father")
                .extra(In, "the park")
                .end(),
            "We often meet his father in the park.",
            "Incontriamo spesso suo padre nel parco.",
        ),
        (
            say("I", "lose", Habit(Always), Stated).object("my keys").end(),
            "I always lose my keys.",
            "Perdo sempre le mie chiavi.",
        ),
        (
            say("they", "clean", Habit(Never), Stated).object("their car").end(),
            "They never clean their car.",
            "Non puliscono mai la loro macchina.",
        ),
        (
            say("I", "buy", Past, Stated).object("a gift").extra(For, "the psychologist").end(),
            "I bought a gift for the psychologist.",
            "Ho comprato un regalo per lo psicologo.",
        ),
        (
            say("she", "stay", Past, Stated).place("the hotel").extra(With, "my mother").end(),
            "She stayed in the hotel with my mother.",
            "Lei è restata nell'albergo con mia madre.",
        ),
    ]);
}

#[test]
fn hours() {
    let eat = |hour, minutes| {
        say("I", "eat", Present, Stated).object("an apple").clock(hour, minutes).end()
    };
    check(vec![
        (eat("three", Sharp), "I eat an apple at three o'clock.", "Mangio una mela alle tre."),
        (eat("one", Sharp), "I eat an apple at one o'clock.", "Mangio una mela all'una."),
        (eat("one", Half), "I eat an apple at half past one.", "Mangio una mela all'una e mezza."),
        (
            eat("eleven", Quarter),
            "I eat an apple at a quarter past eleven.",
            "Mangio una mela alle undici e un quarto.",
        ),
    ]);
}

#[test]
fn being_and_comparing() {
    check(vec![
        (be("I", "tired", Tense::Present, Stated, None), "I am tired.", "Sono stanco."),
        (be("we", "ready", Tense::Present, Denied, None), "We are not ready.", "Non siamo pronti."),
        (be("you", "happy", Tense::Present, Asked, None), "Are you happy?", "Sei felice?"),
        (be("she", "tall", Tense::Present, Stated, None), "She is tall.", "Lei è alta."),
        (
            be("my sisters", "tired", Tense::Past, Stated, Some("yesterday")),
            "My sisters were tired yesterday.",
            "Le mie sorelle erano stanche ieri.",
        ),
        (
            be("the museum", "closed", Tense::Future, Asked, Some("on Sunday")),
            "Will the museum be closed on Sunday?",
            "Il museo sarà chiuso domenica?",
        ),
        (
            be("the door of the house", "open", Tense::Present, Denied, None),
            "The door of the house is not open.",
            "La porta della casa non è aperta.",
        ),
        (
            be("these cakes", "good", Tense::Present, Stated, None),
            "These cakes are good.",
            "Queste torte sono buone.",
        ),
        (
            be("those gardens", "beautiful", Tense::Present, Stated, None),
            "Those gardens are beautiful.",
            "Quei giardini sono belli.",
        ),
        (
            compare("my sister", "taller", "your friend"),
            "My sister is taller than your friend.",
            "Mia sorella è più alta del tuo amico.",
        ),
        (
            compare("he", "younger", "my brother"),
            "He is younger than my brother.",
            "Lui è più giovane di mio fratello.",
        ),
        (
            compare("the dogs", "bigger", "the squirrels"),
            "The dogs are bigger than the squirrels.",
            "I cani sono più grandi degli scoiattoli.",
        ),
        (
            compare("this hat", "more expensive", "those shoes"),
            "This hat is more expensive than those shoes.",
            "Questo cappello è più caro di quelle scarpe.",
        ),
        (
            compare("the museum", "more famous", "the churches"),
            "The museum is more famous than the churches.",
            "Il museo è più famoso delle chiese.",
        ),
    ]);
}

#[test]
fn there_is() {
    let there = |tense, force, what| there(tense, force, what, "the table");
    check(vec![
        (
            there(Tense::Present, Denied, "no milk"),
            "There is no milk on the table.",
            "Non c'è latte sul tavolo.",
        ),
        (
            there(Tense::Present, Denied, "no mirror"),
            "There is no mirror on the table.",
            "Non c'è nessuno specchio sul tavolo.",
        ),
        (
            there(Tense::Present, Denied, "no orange"),
            "There is no orange on the table.",
            "Non c'è nessun'arancia sul tavolo.",
        ),
        (
            there(Tense::Past, Denied, "no key"),
            "There was no key on the table.",
            "Non c'era nessuna chiave sul tavolo.",
        ),
        (
            there(Tense::Present, Denied, "no umbrella"),
            "There is no umbrella on the table.",
            "Non c'è nessun ombrello sul tavolo.",
        ),
        (
            there(Tense::Present, Denied, "no books"),
            "There are no books on the table.",
            "Non ci sono libri sul tavolo.",
        ),
        (
            there(Tense::Future, Stated, "some letters"),
            "There will be some letters on the table.",
            "Ci saranno delle lettere sul tavolo.",
        ),
        (
            there(Tense::Past, Asked, "three cakes"),
            "Were there three cakes on the table?",
            "C'erano tre torte sul tavolo?",
        ),
        (
            there(Tense::Future, Asked, "a gift"),
            "Will there be a gift on the table?",
            "Ci sarà un regalo sul tavolo?",
        ),
    ]);
}

#[test]
fn phrases_for_travellers() {
    check(vec![
        (where_is("the station", None), "Where is the station?", "Dov'è la stazione?"),
        (where_is("my shoes", None), "Where are my shoes?", "Dove sono le mie scarpe?"),
        (
            where_is("the man", Some("yesterday")),
            "Where was the man yesterday?",
            "Dov'era l'uomo ieri?",
        ),
        (
            where_is("those actresses", Some("this morning")),
            "Where were those actresses this morning?",
            "Dov'erano quelle attrici stamattina?",
        ),
        (cost("this hat"), "How much does this hat cost?", "Quanto costa questo cappello?"),
        (
            cost("the red shoes"),
            "How much do the red shoes cost?",
            "Quanto costano le scarpe rosse?",
        ),
        (
            wish("some hot milk", false),
            "I would like some hot milk, please.",
            "Vorrei del latte caldo, per favore.",
        ),
        (
            wish("two sandwiches", true),
            "We would like two sandwiches, please.",
            "Vorremmo due panini, per favore.",
        ),
    ]);
}

#[test]
fn weather_phrases() {
    check(vec![
        (
            weather("today", Tense::Present, Stated, "cold", None),
            "Today it is cold.",
            "Oggi fa freddo.",
        ),
        (
            weather("now", Tense::Present, Stated, "raining", Some("Naples")),
            "Now it is raining in Naples.",
            "Adesso piove a Napoli.",
        ),
        (
            weather("tomorrow", Tense::Future, Stated, "sunny", Some("Rome")),
            "Tomorrow it will be sunny in Rome.",
            "Domani ci sarà il sole a Roma.",
        ),
        (
            weather("yesterday", Tense::Past, Denied, "snowing", None),
            "Yesterday it was not snowing.",
            "Ieri non nevicava.",
        ),
        (
            weather("tonight", Tense::Future, Denied, "windy", Some("the garden")),
            "Tonight it will not be windy in the garden.",
            "Stasera non ci sarà vento nel giardino.",
        ),
    ]);
}
