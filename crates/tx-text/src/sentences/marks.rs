//! Classes of the characters around the end of a sentence.

/// Mark that can end a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// Full stop of scripts with capital letters, which abbreviations and ordinals share.
    Stop,
    /// Ellipsis: `…`, or several full stops.
    Ellipsis,
    /// Question or exclamation mark of scripts with spaces.
    Strong,
    /// Mark that ends a sentence also without a space after it: `。！？`, danda, Armenian full stop and
    /// others.
    Full,
}

/// Marks of the class [`Mark::Full`]: the property Sentence_Terminal of Unicode 17.0, as ranges, without
/// the marks of the other classes.
const FULL: &[(char, char)] = &[
    ('\u{589}', '\u{589}'),
    ('\u{61D}', '\u{61E}'),
    ('\u{6D4}', '\u{6D4}'),
    ('\u{700}', '\u{702}'),
    ('\u{7F9}', '\u{7F9}'),
    ('\u{837}', '\u{837}'),
    ('\u{839}', '\u{839}'),
    ('\u{83D}', '\u{83E}'),
    ('\u{964}', '\u{965}'),
    ('\u{104A}', '\u{104B}'),
    ('\u{1362}', '\u{1362}'),
    ('\u{1367}', '\u{1368}'),
    ('\u{166E}', '\u{166E}'),
    ('\u{1735}', '\u{1736}'),
    ('\u{17D4}', '\u{17D5}'),
    ('\u{1803}', '\u{1803}'),
    ('\u{1809}', '\u{1809}'),
    ('\u{1944}', '\u{1945}'),
    ('\u{1AA8}', '\u{1AAB}'),
    ('\u{1B4E}', '\u{1B4F}'),
    ('\u{1B5A}', '\u{1B5B}'),
    ('\u{1B5E}', '\u{1B5F}'),
    ('\u{1B7D}', '\u{1B7F}'),
    ('\u{1C3B}', '\u{1C3C}'),
    ('\u{1C7E}', '\u{1C7F}'),
    ('\u{2CF9}', '\u{2CFB}'),
    ('\u{2E2E}', '\u{2E2E}'),
    ('\u{2E3C}', '\u{2E3C}'),
    ('\u{2E53}', '\u{2E54}'),
    ('\u{2E60}', '\u{2E61}'),
    ('\u{3002}', '\u{3002}'),
    ('\u{A4FF}', '\u{A4FF}'),
    ('\u{A60E}', '\u{A60F}'),
    ('\u{A6F3}', '\u{A6F3}'),
    ('\u{A6F7}', '\u{A6F7}'),
    ('\u{A876}', '\u{A877}'),
    ('\u{A8CE}', '\u{A8CF}'),
    ('\u{A92F}', '\u{A92F}'),
    ('\u{A9C8}', '\u{A9C9}'),
    ('\u{AA5D}', '\u{AA5F}'),
    ('\u{AAF0}', '\u{AAF1}'),
    ('\u{ABEB}', '\u{ABEB}'),
    ('\u{FE12}', '\u{FE12}'),
    ('\u{FE15}', '\u{FE16}'),
    ('\u{FF01}', '\u{FF01}'),
    ('\u{FF1F}', '\u{FF1F}'),
    ('\u{FF61}', '\u{FF61}'),
    ('\u{10A56}', '\u{10A57}'),
    ('\u{10F55}', '\u{10F59}'),
    ('\u{10F86}', '\u{10F89}'),
    ('\u{11047}', '\u{11048}'),
    ('\u{110BE}', '\u{110C1}'),
    ('\u{11141}', '\u{11143}'),
    ('\u{111C5}', '\u{111C6}'),
    ('\u{111CD}', '\u{111CD}'),
    ('\u{111DE}', '\u{111DF}'),
    ('\u{11238}', '\u{11239}'),
    ('\u{1123B}', '\u{1123C}'),
    ('\u{112A9}', '\u{112A9}'),
    ('\u{113D4}', '\u{113D5}'),
    ('\u{1144B}', '\u{1144C}'),
    ('\u{115C2}', '\u{115C3}'),
    ('\u{115C9}', '\u{115D7}'),
    ('\u{11641}', '\u{11642}'),
    ('\u{1173C}', '\u{1173E}'),
    ('\u{11944}', '\u{11944}'),
    ('\u{11946}', '\u{11946}'),
    ('\u{11A42}', '\u{11A43}'),
    ('\u{11A9B}', '\u{11A9C}'),
    ('\u{11C41}', '\u{11C42}'),
    ('\u{11EF7}', '\u{11EF8}'),
    ('\u{11F43}', '\u{11F44}'),
    ('\u{16A6E}', '\u{16A6F}'),
    ('\u{16AF5}', '\u{16AF5}'),
    ('\u{16B37}', '\u{16B38}'),
    ('\u{16B44}', '\u{16B44}'),
    ('\u{16D6E}', '\u{16D6F}'),
    ('\u{16E98}', '\u{16E98}'),
    ('\u{1BC9F}', '\u{1BC9F}'),
    ('\u{1DA88}', '\u{1DA88}'),
];

/// Marks that depend on language and script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Whether the semicolon is the question mark, as in Greek.
    pub(super) semicolon: bool,
    /// Whether the colon is the full stop, as in Armenian that is typed without `։`.
    pub(super) colon: bool,
}

impl Marks {
    /// Returns the marks of a line. The colon is the full stop in a line of Armenian without `։`.
    pub(super) fn of(line: &str, greek: bool) -> Self {
        let colon = line.contains(is_armenian) && !line.contains('\u{589}');
        Self { semicolon: greek, colon }
    }
}

/// Returns the class of a mark; `None` for other characters.
pub(super) fn mark(c: char, marks: Marks) -> Option<Mark> {
    match c {
        '.' | '\u{2024}' | '\u{FE52}' | '\u{FF0E}' => Some(Mark::Stop),
        '…' => Some(Mark::Ellipsis),
        '!' | '?' | '؟' | '‼' | '‽' | '⁇' | '⁈' | '⁉' | '\u{FE56}' | '\u{FE57}' | '\u{37E}' => {
            Some(Mark::Strong)
        }
        ';' if marks.semicolon => Some(Mark::Strong),
        ':' if marks.colon => Some(Mark::Strong),
        _ if c.is_ascii() => None,
        _ => {
            let next = FULL.partition_point(|(_, last)| *last < c);
            FULL.get(next).is_some_and(|(first, _)| *first <= c).then_some(Mark::Full)
        }
    }
}

/// Whether a quotation mark or bracket closes.
pub(super) fn closes(c: char) -> bool {
    matches!(c, '"' | '\'' | '»' | '’' | '”' | '›' | ')' | ']' | '}' | '⟩' | '❜' | '❞')
        || closing_bracket_of_cjk(c)
}

/// Whether a bracket of Chinese, Japanese or Korean text closes.
pub(super) fn closing_bracket_of_cjk(c: char) -> bool {
    matches!(c, '〉' | '》' | '」' | '』' | '】' | '〕' | '〗' | '〙' | '〛' | '〞' | '〟')
        || matches!(c, '﹂' | '﹄' | '）' | '］' | '｝' | '｠' | '｣')
}

/// Whether a quotation mark opens in some languages and closes in others.
pub(super) fn opens_or_closes(c: char) -> bool {
    matches!(c, '“' | '‘' | '«' | '‹' | '‟' | '‛')
}

/// Whether a character can stand before the first word of a sentence.
pub(super) fn opens(c: char) -> bool {
    opens_or_closes(c)
        || matches!(c, '"' | '\'' | '»' | '›' | '”' | '’' | '„' | '‚' | '(' | '[' | '{' | '¿' | '¡')
        || matches!(c, '〈' | '《' | '「' | '『' | '【' | '〔' | '〖' | '（' | '［' | '｛' | '｢')
}

/// Whether a dash, as before direct speech.
pub(super) fn is_dash(c: char) -> bool {
    matches!(c, '-' | '‐' | '‑' | '‒' | '–' | '—' | '―' | '−')
}

/// Whether a bullet of a list.
pub(super) fn is_bullet(c: char) -> bool {
    matches!(c, '•' | '‣' | '⁃' | '▪' | '●' | '◦' | '∙' | '·' | '*')
}

/// Whether a letter of Armenian.
pub(super) fn is_armenian(c: char) -> bool {
    matches!(c, '\u{531}'..='\u{556}' | '\u{561}'..='\u{587}')
}

/// Whether punctuation continues the sentence before it.
pub(super) fn continues(c: char) -> bool {
    matches!(c, ',' | ';' | ':' | '/' | '%' | '，' | '、' | '；' | '：' | '،' | '؛' | '՝')
}

/// Whether a line ends here: paragraph separators of UAX #29, and the vertical separators.
pub(super) fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a letter of Hiragana, which after a closing quotation mark continues the sentence.
pub(super) fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{309F}')
}
