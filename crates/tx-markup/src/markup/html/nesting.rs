//! Open elements of HTML, with the end tags that may be omitted.
//!
//! A simplification of the tree construction of HTML: which elements a tag ends, but no moved content.
//! Each step takes constant time, except for the elements that it ends, so that hostile documents take
//! linear time.

use std::{collections::HashMap, rc::Rc};

/// Properties of the content of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) is_translated: bool,
    pub(super) is_preformatted: bool,
}

/// Open elements.
#[derive(Debug)]
pub(super) struct Nesting {
    elements: Vec<Element>,
    scopes: Vec<Scope>,
}

#[derive(Debug)]
struct Element {
    name: Rc<str>,
    state: State,
    /// Index of the scope that it is in.
    scope: usize,
    /// Number of items outside of a list, which the tags of its items do not end.
    items: Vec<(Rc<str>, usize)>,
}

/// Elements in an element that tags in it do not end from inside, such as a cell of a table.
#[derive(Debug, Default)]
struct Scope {
    /// Number of open elements by name.
    counts: HashMap<Rc<str>, usize>,
    /// Index of the element that begins the scope.
    element: Option<usize>,
    /// Index of the scope of the innermost table around it.
    table: Option<usize>,
}

/// Elements that begin a scope.
const SCOPES: &[&str] = &["button", "caption", "object", "table", "td", "template", "th"];

/// Lists, and the items that belong to them.
const LISTS: &[(&str, &[&str])] =
    &[("dl", &["dd", "dt"]), ("menu", &["li"]), ("ol", &["li"]), ("ul", &["li"])];

/// Elements whose start tag ends a paragraph.
const PARAGRAPH_ENDS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "li",
    "listing",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "plaintext",
    "pre",
    "search",
    "section",
    "summary",
    "table",
    "ul",
    "xmp",
];

impl Default for Nesting {
    fn default() -> Self {
        Self { elements: Vec::new(), scopes: vec![Scope::default()] }
    }
}

impl Nesting {
    /// Properties of the content of the innermost element.
    pub(super) fn state(&self) -> State {
        let outside = State { is_translated: true, is_preformatted: false };
        self.elements.last().map_or(outside, |element| element.state)
    }

    /// Ends the elements that a start tag ends.
    pub(super) fn end_implied(&mut self, name: &str) {
        match name {
            "li" | "a" | "button" => self.end_in_scope(&[name]),
            "dd" | "dt" => self.end_in_scope(&["dd", "dt"]),
            "option" => self.end_in_scope(&["option"]),
            "optgroup" => self.end_in_scope(&["optgroup", "option"]),
            "rb" | "rt" | "rp" | "rtc" => self.end_in_scope(&["rb", "rt", "rp"]),
            "body" => self.end_in_scope(&["head"]),
            "td" | "th" => self.end_in_table(&["td", "th", "caption"]),
            "tr" => self.end_in_table(&["tr", "caption", "colgroup"]),
            "tbody" | "thead" | "tfoot" => {
                self.end_in_table(&["tbody", "thead", "tfoot", "tr", "caption", "colgroup"]);
            }
            _ => {}
        }
        if PARAGRAPH_ENDS.contains(&name) {
            self.end_in_scope(&["p"]);
        }
        // `button` begins a scope, so that an open one is its owner.
        if name == "button" && self.is_owner(name) {
            self.end(name);
        }
    }

    /// Begins an element.
    pub(super) fn start(&mut self, name: &str, state: State) {
        let name: Rc<str> = name.into();
        let scope = self.scopes.len() - 1;
        let counts = &mut self.scopes[scope].counts;
        let names = LISTS.iter().find(|(list, _)| **list == *name).map_or(&[][..], |list| list.1);
        let items = names.iter().filter_map(|item| counts.remove_entry(*item)).collect();
        *counts.entry(name.clone()).or_default() += 1;
        let element = self.elements.len();
        if SCOPES.contains(&&*name) {
            let index = self.scopes.len();
            let table = match &*name {
                "table" => Some(index),
                "template" => None,
                _ => self.scopes[scope].table,
            };
            self.scopes.push(Scope { element: Some(element), table, ..Scope::default() });
        }
        self.elements.push(Element { name, state, scope, items });
    }

    /// Ends the element that an end tag names, and those in it; returns its properties. `None` if there is
    /// none in the scope.
    pub(super) fn end(&mut self, name: &str) -> Option<State> {
        let scope = self.scopes.len() - 1;
        if self.has(scope, name) {
            return self.end_until(scope, name);
        }
        let table = self.scopes[scope].table;
        match name {
            "table" => {
                let element = self.scopes[table?].element?;
                self.end_from(element)
            }
            "tr" | "tbody" | "thead" | "tfoot" | "td" | "th" | "caption"
                if table.is_some_and(|table| self.has(table, name)) =>
            {
                self.end_until(table?, name)
            }
            _ if self.is_owner(name) => {
                let element = self.scopes[scope].element?;
                self.end_from(element)
            }
            // These never end with an element in them.
            "body" | "html" => {
                let element =
                    self.elements.iter().take(2).position(|found| *found.name == *name)?;
                self.end_from(element)
            }
            _ => None,
        }
    }

    /// Whether the innermost scope is that of an element with this name.
    fn is_owner(&self, name: &str) -> bool {
        let element = self.scopes.last().and_then(|scope| scope.element);
        element.and_then(|element| self.elements.get(element)).is_some_and(|it| *it.name == *name)
    }

    fn has(&self, scope: usize, name: &str) -> bool {
        self.scopes[scope].counts.get(name).is_some_and(|count| *count > 0)
    }

    fn end_in_scope(&mut self, names: &[&str]) {
        for name in names {
            let scope = self.scopes.len() - 1;
            if self.has(scope, name) {
                self.end_until(scope, name);
            }
        }
    }

    fn end_in_table(&mut self, names: &[&str]) {
        for name in names {
            let table = self.scopes.last().and_then(|scope| scope.table);
            if let Some(table) = table.filter(|table| self.has(*table, name)) {
                self.end_until(table, name);
            }
        }
    }

    /// Ends elements up to the innermost one with this name in a scope.
    fn end_until(&mut self, scope: usize, name: &str) -> Option<State> {
        while let Some(element) = self.pop() {
            if element.scope == scope && *element.name == *name {
                return Some(element.state);
            }
        }
        None
    }

    /// Ends the element with this index, and those in it.
    fn end_from(&mut self, index: usize) -> Option<State> {
        let mut state = None;
        while self.elements.len() > index {
            state = self.pop().map(|element| element.state);
        }
        state
    }

    fn pop(&mut self) -> Option<Element> {
        let element = self.elements.pop()?;
        if self.scopes.last().and_then(|scope| scope.element) == Some(self.elements.len()) {
            self.scopes.pop();
        }
        let counts = &mut self.scopes[element.scope].counts;
        if let Some(count) = counts.get_mut(&element.name) {
            *count = count.saturating_sub(1);
        }
        for (name, count) in &element.items {
            counts.insert(name.clone(), *count);
        }
        Some(element)
    }
}
