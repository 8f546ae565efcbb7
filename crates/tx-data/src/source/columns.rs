//! Selection of the source and target columns by name, number or language.

use super::language::fit;
use crate::encode::TargetSide;

/// Columns and languages given for the two sides of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// Column name, field name, language or column number (from 1) of the source.
    pub source: Option<String>,
    /// Column name, field name, language or column number (from 1) of the target.
    pub target: Option<String>,
    /// Language code of the source.
    pub source_language: Option<String>,
    /// Language code of the target.
    pub target_language: Option<String>,
    /// Whether the first row of a table contains column names; detected from content if `None`.
    pub header: Option<bool>,
    /// Content of the target. A label can be an integer or a boolean where a sentence must be text.
    pub target_side: TargetSide,
}

/// Column or field of a format with types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// Name, or a path such as `translation.en`.
    pub name: String,
    /// Whether the values are text; otherwise, they are numbers or booleans.
    pub is_text: bool,
}

/// Usual column names of the sides in files without languages, and of texts and labels.
const SOURCE_NAMES: [&str; 5] = ["source", "src", "source_text", "text", "sentence"];
const TARGET_NAMES: [&str; 5] = ["target", "tgt", "trg", "target_text", "label"];

impl Columns {
    /// Finds both sides in `names`, which may be paths such as `translation.en`.
    ///
    /// # Errors
    ///
    /// If a side is missing; the error names it.
    pub(super) fn among(&self, names: &[String]) -> Result<(usize, usize), String> {
        let (source, target) = (self.source_among(names)?, self.target_among(names)?);
        match (source, target) {
            (Some(source), Some(target)) if source == target => {
                Err(format!("source and target are the same column `{}`", names[source]))
            }
            (Some(source), Some(target)) => Ok((source, target)),
            (Some(one), None) if names.len() == 2 => Ok((one, 1 - one)),
            (None, Some(one)) if names.len() == 2 => Ok((1 - one, one)),
            (None, None) if names.len() == 2 && !self.named() => Ok((0, 1)),
            (None, _) => Err(format!("no column for the source{}", self.seen(names))),
            (_, None) => Err(format!("no column for the target{}", self.seen(names))),
        }
    }

    /// Finds both sides in `fields`, of which the source must be text. A target that is a sentence must
    /// be text too; for a label, fields with text take precedence, unless the field is requested.
    ///
    /// # Errors
    ///
    /// If a side is missing; the error names it.
    pub(super) fn among_fields(&self, fields: &[Field]) -> Result<(usize, usize), String> {
        let texts: Vec<usize> = (0..fields.len()).filter(|&index| fields[index].is_text).collect();
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        let text_names: Vec<String> = texts.iter().map(|&index| names[index].clone()).collect();
        match self.target_side {
            TargetSide::Sentence => {
                let (source, target) = self.among(&text_names)?;
                Ok((texts[source], texts[target]))
            }
            TargetSide::Label => self.text_and_label(&names, &texts, &text_names),
        }
    }

    /// Finds text and label in `names`, of which those at `texts` are `text_names`.
    fn text_and_label(
        &self,
        names: &[String],
        texts: &[usize],
        text_names: &[String],
    ) -> Result<(usize, usize), String> {
        let text = |index: usize| texts[index];
        // A column number counts all fields.
        let source = match &self.source {
            Some(_) => self.source_among(names)?,
            None => self.source_among(text_names)?.map(text),
        };
        let target = match &self.target {
            Some(_) => self.target_among(names)?,
            None => match self.target_among(text_names)?.map(text) {
                Some(target) => Some(target),
                None => self.target_among(names)?,
            },
        };
        let other_text = |side: usize| {
            let mut others = texts.iter().filter(|&&index| index != side);
            others.next().copied().filter(|_| others.next().is_none())
        };
        let (source, target) = match (source, target) {
            (Some(source), None) if names.len() == 2 => (Some(source), Some(1 - source)),
            (Some(source), None) => (Some(source), other_text(source)),
            (None, Some(target)) => (other_text(target), Some(target)),
            (None, None) => match *texts {
                [text] if names.len() == 2 => (Some(text), Some(1 - text)),
                [text, label] => (Some(text), Some(label)),
                _ => (None, None),
            },
            both => both,
        };
        match (source, target) {
            (Some(source), Some(target)) if source == target => {
                Err(format!("text and label are the same column `{}`", names[source]))
            }
            (Some(source), Some(_)) if !texts.contains(&source) => {
                Err(format!("column `{}` has no text", names[source]))
            }
            (Some(source), Some(target)) => Ok((source, target)),
            (None, _) => Err(format!("no column for the text{}", self.seen(text_names))),
            (_, None) => {
                let names = listed(names);
                Err(format!("no column for the label; columns of text or numbers: {names}"))
            }
        }
    }

    /// Returns `true` if `cells` are column names by their text.
    pub(super) fn is_header(&self, cells: &[String]) -> bool {
        let by_name = |requested: &Option<String>| {
            requested.as_ref().is_some_and(|requested| requested.parse::<usize>().is_err())
        };
        let found = |side: Result<Option<usize>, String>| matches!(side, Ok(Some(_)));
        self.header.unwrap_or_else(|| {
            by_name(&self.source)
                || by_name(&self.target)
                || self.source.is_none()
                    && self.target.is_none()
                    && found(self.source_among(cells))
                    && found(self.target_among(cells))
        })
    }

    /// Sides of a table without column names: by number, or the first two columns.
    ///
    /// # Errors
    ///
    /// If a number is 0.
    pub(super) fn by_number(&self) -> Result<(usize, usize), String> {
        let number = |requested: &Option<String>, other: usize| match requested {
            None => Ok(other),
            Some(requested) => match requested.parse::<usize>() {
                Ok(number @ 1..) => Ok(number - 1),
                _ => Err(format!("column `{requested}` not found; column numbers start at 1")),
            },
        };
        Ok((number(&self.source, 0)?, number(&self.target, 1)?))
    }

    /// Returns `true` if languages or columns were given.
    fn named(&self) -> bool {
        self.source.is_some() || self.target.is_some()
    }

    fn source_among(&self, names: &[String]) -> Result<Option<usize>, String> {
        side_among(names, &self.source, &self.source_language, &SOURCE_NAMES)
    }

    fn target_among(&self, names: &[String]) -> Result<Option<usize>, String> {
        side_among(names, &self.target, &self.target_language, &TARGET_NAMES)
    }

    fn seen(&self, names: &[String]) -> String {
        let languages: Vec<&str> = [&self.source_language, &self.target_language]
            .into_iter()
            .flatten()
            .map(|l| l.as_str())
            .collect();
        let wanted = if languages.is_empty() {
            String::new()
        } else {
            format!(" (languages {})", languages.join(" and "))
        };
        format!("{wanted}; text columns: {}", listed(names))
    }
}

/// First names, for an error.
fn listed(names: &[String]) -> String {
    let mut names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.len() > 20 {
        names.truncate(20);
        names.push("…".into());
    }
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn side_among(
    names: &[String],
    requested: &Option<String>,
    language: &Option<String>,
    roles: &[&str],
) -> Result<Option<usize>, String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().trim().to_owned();
    if let Some(requested) = requested {
        let exact = names.iter().position(|name| name == requested);
        let number = requested.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        return exact
            .or_else(|| names.iter().position(|name| last(name) == *requested))
            .or(number.filter(|&number| number < names.len()))
            .map(Some)
            .ok_or_else(|| {
                format!("column `{requested}` not found; available: {}", names.join(", "))
            });
    }
    if let Some(language) = language {
        let fits = names.iter().enumerate().filter_map(|(index, name)| {
            let nested = name.starts_with("translation.");
            // On a tie, the earlier column.
            fit(&last(name), language).map(|fit| (fit, nested, std::cmp::Reverse(index)))
        });
        if let Some((_, _, index)) = fits.max() {
            return Ok(Some(index.0));
        }
    }
    let role = |name: &String| roles.iter().any(|role| last(name).eq_ignore_ascii_case(role));
    Ok(names.iter().position(role))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn languages(source: &str, target: &str) -> Columns {
        let some = |code: &str| Some(code.to_owned());
        Columns {
            source_language: some(source),
            target_language: some(target),
            ..Columns::default()
        }
    }

    #[test]
    fn sides_are_found_by_language_by_role_and_by_position() {
        let nested = names(&["en", "translation.de", "translation.en"]);
        assert_eq!(languages("en", "de").among(&nested), Ok((2, 1)));
        assert_eq!(languages("it", "en").among(&names(&["English", "ita"])), Ok((1, 0)));
        let roles = names(&["id", "target", "source"]);
        assert_eq!(Columns::default().among(&roles), Ok((2, 1)));
        assert_eq!(Columns::default().among(&names(&["a", "b"])), Ok((0, 1)));
        assert!(Columns::default().among(&names(&["a", "b", "c"])).is_err());
    }

    #[test]
    fn a_requested_column_must_exist() {
        let requested =
            Columns { source: Some("b".into()), target: Some("1".into()), ..Columns::default() };
        assert_eq!(requested.among(&names(&["a", "b"])), Ok((1, 0)));
        let problem = requested.among(&names(&["a", "c"])).unwrap_err();
        assert_eq!(problem, "column `b` not found; available: a, c");
        assert!(requested.among(&names(&["b"])).unwrap_err().contains("same column `b`"));
    }

    /// Fields whose names end in `#` are numbers.
    fn labeled(columns: &Columns, names: &[&str]) -> Result<(usize, usize), String> {
        let field = |name: &&str| Field {
            name: name.trim_end_matches('#').to_owned(),
            is_text: !name.ends_with('#'),
        };
        let columns = Columns { target_side: TargetSide::Label, ..columns.clone() };
        columns.among_fields(&names.iter().map(field).collect::<Vec<_>>())
    }

    #[test]
    fn a_label_can_be_a_number_and_a_text_cannot() {
        let found = |names| labeled(&Columns::default(), names);
        assert_eq!(found(&["idx#", "label#", "sentence"]), Ok((2, 1)));
        assert_eq!(found(&["stars#", "review"]), Ok((1, 0)));
        assert_eq!(
            found(&["review", "title", "label#"]),
            Err("no column for the text; text columns: `review`, `title`".into())
        );
        assert_eq!(found(&["review", "label#", "score#"]), Ok((0, 1)));
        // Text takes precedence: these files need no numbers.
        assert_eq!(found(&["id#", "label#", "text", "target"]), Ok((2, 3)));
        assert_eq!(found(&["id#", "a", "b"]), Ok((1, 2)));
        assert_eq!(found(&["text", "url", "stars#"]), Ok((0, 1)));
        assert_eq!(
            found(&["text", "id#", "stars#"]),
            Err("no column for the label; columns of text or numbers: `text`, `id`, `stars`".into())
        );
        let requested = |source: Option<&str>, target: &str| Columns {
            source: source.map(str::to_owned),
            target: Some(target.to_owned()),
            ..Columns::default()
        };
        let names = &["id#", "title", "review", "stars#"];
        assert_eq!(labeled(&requested(Some("review"), "stars"), names), Ok((2, 3)));
        assert_eq!(labeled(&requested(Some("3"), "4"), names), Ok((2, 3)));
        assert_eq!(labeled(&requested(None, "id"), &["id#", "review"]), Ok((1, 0)));
        assert_eq!(
            labeled(&requested(Some("id"), "stars"), names),
            Err("column `id` has no text".into())
        );
        let sentences =
            [Field { name: "a".into(), is_text: true }, Field { name: "b".into(), is_text: false }];
        assert!(Columns::default().among_fields(&sentences).is_err());
    }

    #[test]
    fn a_header_is_distinguished_from_a_pair() {
        let cells = |cells: &[&str]| names(cells);
        assert!(languages("en", "fr").is_header(&cells(&["English", "fr", "note"])));
        assert!(!languages("en", "fr").is_header(&cells(&["Go.", "Va !"])));
        assert!(Columns::default().is_header(&cells(&["source", "target"])));
        assert!(
            !Columns { header: Some(false), ..Columns::default() }
                .is_header(&cells(&["source", "target"]))
        );
    }
}
