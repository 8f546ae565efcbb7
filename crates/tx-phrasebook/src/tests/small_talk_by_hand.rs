//! Small talk and the surroundings of sentences: hand-written pairs, not copied from the program's
//! output.

use super::super::sentence::Aspect::{Future, Habit, Past, Present, Progressive};
use super::super::sentence::Force::{Asked, Denied, Stated};
use super::super::sentence::Frequency::Never;
use super::super::sentence::Minutes::{Half, Quarter, Sharp};
use super::super::sentence::{Ending, Tense, Utterance};
use super::super::verbs::Preposition::With;
use super::build::{
    age, be, check, check_typed, clock, day, fixed, how_is, how_to_say, like, modal, name, naming,
    origin, phrase_entry, point, say, thanks, there, typed, weather, where_is,
};

#[test]
fn fixed_phrases() {
    check(vec![
        (fixed("hello world"), "Hello world.", "Ciao mondo."),
        (fixed("good morning"), "Good morning.", "Buongiorno."),
        (fixed("thank you very much"), "Thank you very much.", "Grazie mille."),
        (fixed("you are welcome"), "You are welcome.", "Prego."),
        (fixed("see you tomorrow"), "See you tomorrow.", "A domani."),
        (fixed("I do not know"), "I do not know.", "Non lo so."),
        (fixed("what time is it"), "What time is it?", "Che ore sono?"),
        (fixed("who are you"), "Who are you?", "Chi sei?"),
    ]);
}

#[test]
fn surroundings_of_a_sentence() {
    let plain = |text| typed(fixed(text));
    let tired = || be("I", "tired", Tense::Present, Denied, None);
    let asked = || be("you", "hungry", Tense::Present, Asked, None);
    check_typed(vec![
        (Utterance { ending: Ending::Nothing, ..plain("hello") }, "Hello", "Ciao"),
        (Utterance { ending: Ending::Exclamation, ..plain("hello") }, "Hello!", "Ciao!"),
        (Utterance { ending: Ending::Nothing, ..typed(asked()) }, "Are you hungry", "Hai fame"),
        (
            Utterance { addressee: Some(name("Anna")), ..plain("good evening") },
            "Good evening, Anna.",
            "Buonasera, Anna.",
        ),
        (
            Utterance {
                addressee: Some(name("Tom")),
                has_commas: false,
                ..plain("how is it going")
            },
            "How is it going Tom?",
            "Come va Tom?",
        ),
        (
            Utterance { opener: Some(phrase_entry("yes")), ..plain("please") },
            "Yes, please.",
            "Sì, per favore.",
        ),
        (
            Utterance {
                opener: Some(phrase_entry("hello")),
                ..typed(naming("I", Some("Marco"), Stated))
            },
            "Hello, my name is Marco.",
            "Ciao, mi chiamo Marco.",
        ),
        (
            Utterance {
                opener: Some(phrase_entry("excuse me")),
                has_commas: false,
                is_contracted: true,
                ..typed(where_is("the station", None))
            },
            "Excuse me where's the station?",
            "Scusa dov'è la stazione?",
        ),
        (Utterance { is_contracted: true, ..typed(tired()) }, "I'm not tired.", "Non sono stanco."),
        (
            Utterance {
                opener: Some(phrase_entry("no")),
                is_contracted: true,
                ..typed(say("I", "understand", Present, Denied).end())
            },
            "No, I don't understand.",
            "No, non capisco.",
        ),
    ]);
}

#[test]
fn here_there_and_at_home() {
    check(vec![
        (
            be("the small cats", "here", Tense::Present, Denied, None),
            "The small cats are not here.",
            "I piccoli gatti non sono qui.",
        ),
        (
            be("my keys", "there", Tense::Present, Asked, None),
            "Are my keys there?",
            "Le mie chiavi sono lì?",
        ),
        (be("Anna", "here", Tense::Present, Stated, None), "Anna is here.", "Anna è qui."),
        (
            be("we", "at home", Tense::Past, Stated, Some("yesterday")),
            "We were at home yesterday.",
            "Eravamo a casa ieri.",
        ),
        (
            be("the book", "on the table", Tense::Present, Stated, None),
            "The book is on the table.",
            "Il libro è sul tavolo.",
        ),
        (
            be("your dog", "in the garden", Tense::Present, Asked, None),
            "Is your dog in the garden?",
            "Il tuo cane è nel giardino?",
        ),
        (be("I", "in Rome", Tense::Present, Stated, None), "I am in Rome.", "Sono a Roma."),
        (
            be("they", "in Italy", Tense::Future, Stated, Some("tomorrow")),
            "They will be in Italy tomorrow.",
            "Saranno in Italia domani.",
        ),
        (where_is("you", None), "Where are you?", "Dove sei?"),
        (where_is("Marco", None), "Where is Marco?", "Dov'è Marco?"),
        (where_is("they", Some("yesterday")), "Where were they yesterday?", "Dov'erano ieri?"),
        (where_is("the big dogs", None), "Where are the big dogs?", "Dove sono i grandi cani?"),
    ]);
}

#[test]
fn states() {
    check(vec![
        (be("I", "hungry", Tense::Present, Stated, None), "I am hungry.", "Ho fame."),
        (
            be("I", "very hungry", Tense::Present, Stated, None),
            "I am very hungry.",
            "Ho molta fame.",
        ),
        (be("you", "cold", Tense::Present, Asked, None), "Are you cold?", "Hai freddo?"),
        (
            be("the girls", "thirsty", Tense::Past, Stated, None),
            "The girls were thirsty.",
            "Le ragazze avevano sete.",
        ),
        (be("you", "right", Tense::Present, Stated, None), "You are right.", "Hai ragione."),
        (be("she", "fine", Tense::Present, Stated, None), "She is fine.", "Lei sta bene."),
        (
            be("my brother", "well", Tense::Present, Denied, Some("today")),
            "My brother is not well today.",
            "Mio fratello non sta bene oggi.",
        ),
        (be("Anna", "tired", Tense::Present, Stated, None), "Anna is tired.", "Anna è stanca."),
        (
            be("the cake", "very good", Tense::Present, Stated, None),
            "The cake is very good.",
            "La torta è molto buona.",
        ),
        (
            be("the coffee", "very hot", Tense::Present, Stated, None),
            "The coffee is very hot.",
            "Il caffè è molto caldo.",
        ),
    ]);
}

#[test]
fn names_ages_and_origins() {
    check(vec![
        (naming("I", Some("Anna"), Stated), "My name is Anna.", "Mi chiamo Anna."),
        (naming("you", None, Asked), "What is your name?", "Come ti chiami?"),
        (naming("you", Some("Tom"), Asked), "Is your name Tom?", "Ti chiami Tom?"),
        (
            naming("she", Some("Laura"), Denied),
            "Her name is not Laura.",
            "Lei non si chiama Laura.",
        ),
        (
            naming("your sister", None, Asked),
            "What is your sister's name?",
            "Come si chiama tua sorella?",
        ),
        (
            naming("my friend", Some("Luca"), Stated),
            "My friend's name is Luca.",
            "Il mio amico si chiama Luca.",
        ),
        (age("I", Some("twenty"), Stated), "I am twenty years old.", "Ho vent'anni."),
        (age("she", Some("eight"), Stated), "She is eight years old.", "Lei ha otto anni."),
        (age("you", None, Asked), "How old are you?", "Quanti anni hai?"),
        (age("your wife", None, Asked), "How old is your wife?", "Quanti anni ha tua moglie?"),
        (origin("you", None, Asked), "Where are you from?", "Di dove sei?"),
        (
            origin("your friend", None, Asked),
            "Where is your friend from?",
            "Di dov'è il tuo amico?",
        ),
        (origin("I", Some("Italy"), Stated), "I am from Italy.", "Vengo dall'Italia."),
        (origin("we", Some("Spain"), Stated), "We are from Spain.", "Veniamo dalla Spagna."),
        (
            origin("he", Some("Japan"), Denied),
            "He is not from Japan.",
            "Lui non viene dal Giappone.",
        ),
        (origin("you all", Some("London"), Asked), "Are you all from London?", "Venite da Londra?"),
        (how_is("you", false), "How are you?", "Come stai?"),
        (how_is("you all", true), "How are you all today?", "Come state oggi?"),
        (how_is("your mother", false), "How is your mother?", "Come sta tua madre?"),
    ]);
}

#[test]
fn liking_and_loving() {
    check(vec![
        (like("I", "coffee", Stated), "I like coffee.", "Mi piace il caffè."),
        (like("I", "cats", Denied), "I do not like cats.", "Non mi piacciono i gatti."),
        (
            like("you", "these pizzas", Asked),
            "Do you like these pizzas?",
            "Ti piacciono queste pizze?",
        ),
        (like("she", "Italy", Stated), "She likes Italy.", "Le piace l'Italia."),
        (like("he", "my car", Stated), "He likes my car.", "Gli piace la mia macchina."),
        (like("they", "Rome", Denied), "They do not like Rome.", "A loro non piace Roma."),
        (like("Anna", "tea", Stated), "Anna likes tea.", "Ad Anna piace il tè."),
        (like("Marco", "tea", Denied), "Marco does not like tea.", "A Marco non piace il tè."),
        (
            like("your brother", "the red shoes", Asked),
            "Does your brother like the red shoes?",
            "A tuo fratello piacciono le scarpe rosse?",
        ),
        (say("I", "love", Present, Stated).them("you").end(), "I love you.", "Ti amo."),
        (
            say("I", "love", Present, Stated).object("oranges").end(),
            "I love oranges.",
            "Amo le arance.",
        ),
        (
            say("I", "drink", Present, Denied).object("coffee").end(),
            "I do not drink coffee.",
            "Non bevo caffè.",
        ),
        (
            say("we", "eat", Present, Stated).object("tomatoes").end(),
            "We eat tomatoes.",
            "Mangiamo pomodori.",
        ),
        (
            say("I", "want", Present, Stated).object("some water").end(),
            "I want some water.",
            "Voglio dell'acqua.",
        ),
        (
            say("cats", "drink", Present, Stated).object("milk").end(),
            "Cats drink milk.",
            "I gatti bevono latte.",
        ),
        (thanks("the coffee"), "Thank you for the coffee.", "Grazie per il caffè."),
    ]);
}

#[test]
fn object_pronouns() {
    let see = |who, whom| say(who, "see", Past, Stated).them(whom).end();
    check(vec![
        (
            say("you", "help", modal("can"), Asked).them("I").end(),
            "Can you help me?",
            "Mi puoi aiutare?",
        ),
        (
            say("I", "understand", Present, Denied).them("you").end(),
            "I do not understand you.",
            "Non ti capisco.",
        ),
        (
            say("we", "help", Future, Stated).them("they").end(),
            "We will help them.",
            "Li aiuteremo.",
        ),
        (see("I", "he"), "I saw him.", "L'ho visto."),
        (see("Anna", "you all"), "Anna saw you all.", "Anna vi ha visto."),
        (see("they", "we"), "They saw us.", "Ci hanno visto."),
        (
            say("he", "look", Progressive, Stated).them("you all").end(),
            "He is looking for you all.",
            "Lui vi sta cercando.",
        ),
        (
            say("he", "love", Habit(Never), Stated).them("she").end(),
            "He never loves her.",
            "Lui non la ama mai.",
        ),
    ]);
}

#[test]
fn languages_and_countries() {
    check(vec![
        (
            say("you", "speak", Present, Asked).language("English", false).end(),
            "Do you speak English?",
            "Parli inglese?",
        ),
        (
            say("I", "speak", Present, Stated).language("Italian", true).end(),
            "I speak a little Italian.",
            "Parlo un po' di italiano.",
        ),
        (
            say("I", "understand", Present, Stated).language("English", false).end(),
            "I understand English.",
            "Capisco l'inglese.",
        ),
        (
            say("they", "understand", Present, Denied).language("Spanish", false).end(),
            "They do not understand Spanish.",
            "Non capiscono lo spagnolo.",
        ),
        (say("I", "understand", Past, Stated).end(), "I understood.", "Ho capito."),
        (
            say("the dog", "sleep", Progressive, Stated).end(),
            "The dog is sleeping.",
            "Il cane sta dormendo.",
        ),
        (
            say("she", "live", Present, Stated).place("Germany").end(),
            "She lives in Germany.",
            "Lei vive in Germania.",
        ),
        (
            say("I", "go", modal("want"), Stated).place("Italy").end(),
            "I want to go to Italy.",
            "Voglio andare in Italia.",
        ),
        (
            say("we", "return", Past, Stated).place("France").extra(With, "my aunt").end(),
            "We returned from France with my aunt.",
            "Siamo tornati dalla Francia con mia zia.",
        ),
        (
            how_to_say("cat", "Italian"),
            "How do you say cat in Italian?",
            "Come si dice gatto in italiano?",
        ),
        (
            how_to_say("thank you", "French"),
            "How do you say thank you in French?",
            "Come si dice grazie in francese?",
        ),
    ]);
}

#[test]
fn pointing_and_being_somebody() {
    check(vec![
        (point("this", "my mother", Stated), "This is my mother.", "Questa è mia madre."),
        (
            point("this", "a beautiful house", Stated),
            "This is a beautiful house.",
            "Questa è una bella casa.",
        ),
        (point("this", "your car", Asked), "Is this your car?", "Questa è la tua macchina?"),
        (
            point("that", "the station", Denied),
            "That is not the station.",
            "Quella non è la stazione.",
        ),
        (point("that", "my friends", Stated), "Those are my friends.", "Quelli sono i miei amici."),
        (point("this", "apples", Stated), "These are apples.", "Queste sono mele."),
        (point("this", "wine", Stated), "This is wine.", "Questo è vino."),
        (point("this", "Luca", Stated), "This is Luca.", "Questo è Luca."),
        (point("I", "a student", Stated), "I am a student.", "Sono uno studente."),
        (point("I", "Anna", Stated), "I am Anna.", "Sono Anna."),
        (point("she", "my wife", Stated), "She is my wife.", "Lei è mia moglie."),
        (point("they", "my uncles", Denied), "They are not my uncles.", "Non sono i miei zii."),
        (point("you", "a doctor", Asked), "Are you a doctor?", "Sei un dottore?"),
    ]);
}

#[test]
fn clock_day_and_weather() {
    check(vec![
        (clock("three", Sharp, Stated), "It is three o'clock.", "Sono le tre."),
        (clock("one", Sharp, Stated), "It is one o'clock.", "È l'una."),
        (clock("one", Half, Asked), "Is it half past one?", "È l'una e mezza?"),
        (
            clock("ten", Quarter, Denied),
            "It is not a quarter past ten.",
            "Non sono le dieci e un quarto.",
        ),
        (day(false, "Monday", Stated), "Today is Monday.", "Oggi è lunedì."),
        (day(true, "Thursday", Denied), "Tomorrow is not Thursday.", "Domani non è giovedì."),
        (day(false, "Sunday", Asked), "Is today Sunday?", "Oggi è domenica?"),
        (weather(None, Tense::Present, Stated, "raining", None), "It is raining.", "Piove."),
        (
            weather(Some("today"), Tense::Present, Asked, "raining", None),
            "Is it raining today?",
            "Piove oggi?",
        ),
        (
            weather(None, Tense::Past, Denied, "hot", Some("Rome")),
            "It was not hot in Rome.",
            "Non faceva caldo a Roma.",
        ),
        (
            weather(None, Tense::Future, Asked, "cloudy", Some("Germany")),
            "Will it be cloudy in Germany?",
            "Sarà nuvoloso in Germania?",
        ),
        (
            there(Tense::Present, Stated, "cats", "the garden"),
            "There are cats in the garden.",
            "Ci sono gatti nel giardino.",
        ),
    ]);
}
