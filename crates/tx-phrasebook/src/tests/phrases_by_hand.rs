//! Noun phrases and prepositions: hand-written pairs, not copied from the program's output.

use super::super::sentence::Aspect::{Habit, Present};
use super::super::sentence::Force::{Denied, Stated};
use super::super::sentence::Frequency::Never;
use super::super::sentence::{Sentence, Tense};
use super::super::verbs::Preposition::To;
use super::build::{check, say, there};

/// Present-tense statement with an object.
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
        (plain("I", "see", "this man"), "I see this man.", "Vedo quest'uomo."),
        (plain("I", "see", "this actress"), "I see this actress.", "Vedo quest'attrice."),
        (plain("I", "see", "these oranges"), "I see these oranges.", "Vedo queste arance."),
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
