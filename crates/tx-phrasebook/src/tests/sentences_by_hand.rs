//! Verbs and complete sentences: hand-written pairs, not copied from the program's output.

use super::super::sentence::Aspect::{Future, Habit, Past, Present, Progressive};
use super::super::sentence::Force::{Asked, Denied, Stated};
use super::super::sentence::Frequency::{Always, Never, Often};
use super::super::sentence::Minutes::{Half, Quarter, Sharp};
use super::super::sentence::Tense;
use super::super::verbs::Preposition::{For, In, To, With};
use super::build::{be, check, compare, cost, modal, say, there, weather, where_is, wish};

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
fn phrases_for_travelers() {
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
            weather(Some("today"), Tense::Present, Stated, "cold", None),
            "Today it is cold.",
            "Oggi fa freddo.",
        ),
        (
            weather(Some("now"), Tense::Present, Stated, "raining", Some("Naples")),
            "Now it is raining in Naples.",
            "Adesso piove a Napoli.",
        ),
        (
            weather(Some("tomorrow"), Tense::Future, Stated, "sunny", Some("Rome")),
            "Tomorrow it will be sunny in Rome.",
            "Domani ci sarà il sole a Roma.",
        ),
        (
            weather(Some("yesterday"), Tense::Past, Denied, "snowing", None),
            "Yesterday it was not snowing.",
            "Ieri non nevicava.",
        ),
        (
            weather(Some("tonight"), Tense::Future, Denied, "windy", Some("the garden")),
            "Tonight it will not be windy in the garden.",
            "Stasera non ci sarà vento nel giardino.",
        ),
    ]);
}
