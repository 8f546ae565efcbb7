//! Positions of markup in a translation, by the alignment of its words.
//!
//! An element covers the target words that are aligned to the source words in it, from the first to
//! the last. Without alignment, positions are proportional. Elements stay nested, elements at the same
//! level do not overlap, and each has at least one word. Other markup stays at the side of the word that
//! it is next to.
//!
//! The elements of a sentence are a flat list, parents before their children, so that depth costs no
//! stack.

mod units;
mod writer;

use std::{collections::HashMap, ops::Range};

use tx_infer::Alignment;

use super::{Format, InlineKind, Segment, Space, partners};
use units::{Side, Units};
use writer::Writer;

/// Inserts the markup of `sentence` into `translation`, whose text is escaped for `format`.
pub fn place(
    sentence: &Segment,
    translation: &str,
    alignment: Option<&Alignment>,
    format: Format,
) -> String {
    if sentence.inlines.is_empty() {
        return format.escape(translation).into_owned();
    }
    if translation == sentence.text {
        return unchanged(sentence, format);
    }
    let cuts: Vec<usize> = sentence.inlines.iter().map(|inline| inline.at).collect();
    let units = Units::new(&sentence.text, translation, &cuts, alignment);
    let mut tree = Tree::new(sentence, &units);
    let needed = tree.needed();
    let mut writer = Writer::new(translation, format);
    if needed <= units.target.len() {
        tree.allocate(&units);
        tree.write(&units, &mut writer);
    } else {
        let units = units.with_characters();
        if needed <= units.target.len() {
            tree.allocate(&units);
            tree.write(&units, &mut writer);
        } else if translation.trim().is_empty() {
            // An element keeps its text rather than none.
            return unchanged(sentence, format);
        } else {
            tree.write_chain(&mut writer);
        }
    }
    writer.written
}

/// A sentence that is its own translation.
fn unchanged(sentence: &Segment, format: Format) -> String {
    let mut writer = Writer::new(&sentence.text, format);
    for inline in &sentence.inlines {
        writer.text(inline.at);
        writer.inline(&inline.raw, &inline.kind);
    }
    writer.text(sentence.text.len());
    writer.written
}

/// Text between sentences with its markup, whose positions are relative to `start`; `is_followed` by a
/// sentence.
pub fn gap(
    text: &str,
    start: usize,
    inlines: &[super::Inline],
    is_followed: bool,
    format: Format,
) -> String {
    let mut writer = Writer::new(text, format);
    for inline in inlines {
        writer.text(inline.at.saturating_sub(start).min(text.len()));
        writer.inline(&inline.raw, &inline.kind);
    }
    writer.text(text.len());
    if is_followed && writer.pending == Some(Space::Spaced) {
        writer.written.push(' ');
    }
    writer.written
}

/// An element; the first one is the sentence.
#[derive(Debug)]
struct Node<'a> {
    parent: usize,
    open: &'a str,
    close: &'a str,
    /// Position in the source.
    source: Range<usize>,
    /// First and last source unit in it.
    covered: Option<(usize, usize)>,
    /// First and last target unit that is aligned to them.
    linked: Option<(usize, usize)>,
    /// Whether start and end are in the sentence; otherwise the element extends beyond it.
    starts: bool,
    ends: bool,
    /// Place in the order of the source.
    order: usize,
    /// Number of target units that it needs.
    needed: usize,
    /// Target units.
    target: Range<usize>,
}

/// Markup that is no element.
#[derive(Debug)]
struct Point<'a> {
    parent: usize,
    raw: &'a str,
    kind: InlineKind,
    at: usize,
    order: usize,
}

/// Elements and points of a sentence.
#[derive(Debug)]
struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    points: Vec<Point<'a>>,
}

impl<'a> Tree<'a> {
    fn new(sentence: &'a Segment, units: &Units<'_>) -> Self {
        let (inlines, end) = (&sentence.inlines, sentence.text.len());
        let partners = partners(inlines);
        let outer = outer_ends(sentence, &partners);
        let mut tree = Self { nodes: Vec::new(), points: Vec::new() };
        let mut stack = vec![tree.node(0, "", 0, 0)];
        tree.nodes[0].source.end = end;
        let mut order = 0;
        for &close in outer.iter().rev() {
            let parent = *stack.last().unwrap_or(&0);
            let node = tree.node(parent, "", 0, 0);
            tree.nodes[node].close = &inlines[close].raw;
            tree.nodes[node].starts = false;
            stack.push(node);
        }
        let mut outer = outer.into_iter().peekable();
        // Nodes of start tags.
        let mut node_of: HashMap<usize, usize> = HashMap::new();
        let mut position = 0;
        for (index, inline) in inlines.iter().enumerate() {
            order += 1;
            let at = inline.at.clamp(position, end);
            let top = *stack.last().unwrap_or(&0);
            tree.cover(top, position..at, units);
            position = at;
            match &inline.kind {
                InlineKind::Open(_) => {
                    let node = tree.node(top, &inline.raw, at, order);
                    node_of.insert(index, node);
                    stack.push(node);
                }
                InlineKind::Close(_) => {
                    let closed = partners[index].and_then(|open| node_of.get(&open)).copied();
                    if closed.is_none() && outer.next_if(|close| *close == index).is_none() {
                        tree.point(top, inline, at, order);
                        continue;
                    }
                    while stack.len() > 1
                        && let Some(node) = stack.pop()
                    {
                        let is_last = closed.is_none_or(|closed| closed == node);
                        if is_last && closed.is_some() {
                            tree.nodes[node].close = &inline.raw;
                        }
                        tree.end(node, at, true);
                        if is_last {
                            break;
                        }
                    }
                }
                InlineKind::Void | InlineKind::Atom(_) => tree.point(top, inline, at, order),
            }
        }
        tree.cover(*stack.last().unwrap_or(&0), position..end, units);
        while stack.len() > 1
            && let Some(node) = stack.pop()
        {
            tree.end(node, end, false);
        }
        tree.without_empty(order + 1);
        tree
    }

    fn node(&mut self, parent: usize, open: &'a str, start: usize, order: usize) -> usize {
        self.nodes.push(Node {
            parent,
            open,
            close: "",
            source: start..start,
            covered: None,
            linked: None,
            starts: true,
            ends: true,
            order,
            needed: 0,
            target: 0..0,
        });
        self.nodes.len() - 1
    }

    fn point(&mut self, parent: usize, inline: &'a super::Inline, at: usize, order: usize) {
        let kind = match inline.kind {
            InlineKind::Atom(spacing) => InlineKind::Atom(spacing),
            _ => InlineKind::Void,
        };
        self.points.push(Point { parent, raw: &inline.raw, kind, at, order });
    }

    /// Adds the units in a range of the source to an element.
    fn cover(&mut self, node: usize, source: Range<usize>, units: &Units<'_>) {
        if source.is_empty() {
            return;
        }
        let first = units.source.partition_point(|unit| unit.end <= source.start);
        for (index, unit) in units.source.iter().enumerate().skip(first) {
            if unit.start >= source.end {
                break;
            }
            let node = &mut self.nodes[node];
            node.covered = union(node.covered, Some((index, index)));
            node.linked = union(node.linked, units.links[index]);
        }
    }

    /// Ends an element, whose words are also those of its parent.
    fn end(&mut self, node: usize, at: usize, ends: bool) {
        let element = &mut self.nodes[node];
        (element.source.end, element.ends) = (at, ends);
        let (parent, covered, linked) = (element.parent, element.covered, element.linked);
        let parent = &mut self.nodes[parent];
        parent.covered = union(parent.covered, covered);
        parent.linked = union(parent.linked, linked);
    }

    /// Replaces elements without words by their tags.
    fn without_empty(&mut self, orders: usize) {
        let mut living = vec![0; self.nodes.len()];
        for index in 1..self.nodes.len() {
            let node = &self.nodes[index];
            let parent = living[node.parent];
            if node.covered.is_some() {
                living[index] = index;
                self.nodes[index].parent = parent;
                continue;
            }
            living[index] = parent;
            let tags =
                [(node.open, node.source.start, node.order), (node.close, node.source.end, orders)];
            for (raw, at, order) in tags.into_iter().filter(|(raw, ..)| !raw.is_empty()) {
                self.points.push(Point { parent, raw, kind: InlineKind::Void, at, order });
            }
        }
        for point in &mut self.points {
            point.parent = living[point.parent];
        }
        let is_living: Vec<bool> =
            living.iter().enumerate().map(|(index, living)| index == *living).collect();
        // Indices of the nodes that stay.
        let mut next = 0;
        let numbers: Vec<usize> = is_living
            .iter()
            .map(|is_living| {
                let number = next;
                next += usize::from(*is_living);
                number
            })
            .collect();
        let mut index = 0;
        self.nodes.retain(|_| {
            index += 1;
            is_living[index - 1]
        });
        self.nodes.iter_mut().for_each(|node| node.parent = numbers[node.parent]);
        self.points.iter_mut().for_each(|point| point.parent = numbers[point.parent]);
    }

    /// Number of target units that the sentence needs: one for each element without others in it.
    fn needed(&mut self) -> usize {
        for index in (1..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            node.needed = node.needed.max(1);
            let (parent, needed) = (node.parent, node.needed);
            self.nodes[parent].needed += needed;
        }
        self.nodes.first().map_or(0, |root| root.needed)
    }

    /// Target units that an element is aligned to.
    fn wanted(&self, node: usize, units: &Units<'_>) -> Range<usize> {
        let (node, count) = (&self.nodes[node], units.target.len());
        let (first, last) = node.covered.unwrap_or_default();
        let is_all = first == 0 && last + 1 == units.source.len();
        let range = match node.linked.filter(|_| !is_all && !units.is_proportional) {
            Some((from, to)) => from..to + 1,
            None => {
                let from = units.proportional(first);
                from..units.proportional(last + 1).max(from + 1)
            }
        };
        let start = if node.starts { range.start.min(count.saturating_sub(1)) } else { 0 };
        start..if node.ends { range.end.min(count) } else { count }
    }

    /// Assigns target units to each element: those it is aligned to, in the range of its parent, without
    /// those of its siblings, and at least as many as it needs.
    fn allocate(&mut self, units: &Units<'_>) {
        let wanted: Vec<Range<usize>> =
            (0..self.nodes.len()).map(|node| self.wanted(node, units)).collect();
        if let Some(root) = self.nodes.first_mut() {
            root.target = 0..units.target.len();
        }
        // Siblings are together, in their order in the translation; parents before children.
        let mut order: Vec<usize> = (1..self.nodes.len()).collect();
        order.sort_by_key(|&node| (self.nodes[node].parent, wanted[node].start, node));
        let mut start = 0;
        while start < order.len() {
            let parent = self.nodes[order[start]].parent;
            let count =
                order[start..].iter().take_while(|&&node| self.nodes[node].parent == parent);
            let siblings = &order[start..start + count.count()];
            start += siblings.len();
            let Range { start: mut free, end } = self.nodes[parent].target.clone();
            let mut rest: usize = siblings.iter().map(|&node| self.nodes[node].needed).sum();
            for (index, &node) in siblings.iter().enumerate() {
                let needed = self.nodes[node].needed;
                let latest = end.saturating_sub(rest).max(free);
                rest -= needed;
                let from = wanted[node].start.clamp(free, latest);
                let most = end.saturating_sub(rest).max(from + needed);
                let mut to = wanted[node].end.clamp(from + needed, most);
                // The words of the next one are its own.
                if let Some(&next) = siblings.get(index + 1) {
                    to = to.min(wanted[next].start.max(from + needed));
                }
                self.nodes[node].target = from..to;
                free = to;
            }
        }
    }

    /// Writes the translation with its markup.
    fn write(&self, units: &Units<'_>, writer: &mut Writer<'_>) {
        let children = self.children(units);
        let mut first = vec![0; self.nodes.len() + 1];
        for child in &children {
            first[child.parent + 1] += 1;
        }
        for index in 0..self.nodes.len() {
            first[index + 1] += first[index];
        }
        // Open elements: node, index of the next child, end in the translation.
        let mut open = vec![(0, first[0], writer.translation.len())];
        while let Some((node, next, end)) = open.last_mut() {
            let (node, end) = (*node, *end);
            if *next < first[node + 1] {
                let child = &children[*next];
                *next += 1;
                writer.text(child.at.min(end));
                match child.content {
                    Content::Point(point) => {
                        let point = &self.points[point];
                        writer.inline(point.raw, &point.kind);
                    }
                    Content::Node(child) => {
                        let stop = self.stop(child, units).min(end);
                        writer.start_tag(self.nodes[child].open);
                        open.push((child, first[child], stop));
                    }
                }
                continue;
            }
            open.pop();
            writer.text(end);
            writer.tag(self.nodes[node].close);
        }
    }

    /// Children of all elements, those of each together and in order.
    fn children(&self, units: &Units<'_>) -> Vec<Child> {
        let mut children = Vec::with_capacity(self.nodes.len() + self.points.len());
        // Elements by parent and position, to find the one that contains a unit.
        let mut siblings: Vec<(usize, usize, usize)> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            siblings.push((node.parent, node.target.start, index));
            children.push(Child {
                parent: node.parent,
                key: (node.target.start, 1, node.order),
                at: self.begin(index, units),
                content: Content::Node(index),
            });
        }
        siblings.sort_unstable();
        for (index, point) in self.points.iter().enumerate() {
            let parent = &self.nodes[point.parent];
            let (mut side, mut unit) = units.place(point.at);
            // It stays in its element, although it may be next to a word outside.
            let (first, last) = parent.covered.unwrap_or((unit, unit));
            if unit < first {
                (side, unit) = (Side::Before, first);
            } else if unit > last {
                (side, unit) = (Side::After, last);
            }
            let slot = units.target_of(side, unit);
            let Some(last) = parent.target.end.checked_sub(1).filter(|_| !units.target.is_empty())
            else {
                let key = (0, 0, point.order);
                let (parent, content) = (point.parent, Content::Point(index));
                children.push(Child { parent, key, at: 0, content });
                continue;
            };
            let mut slot = slot.clamp(parent.target.start, last);
            let mut at = units.offset(side, slot);
            let found = siblings
                .partition_point(|&(parent, start, _)| (parent, start) <= (point.parent, slot));
            let sibling = found.checked_sub(1).map(|found| siblings[found]);
            if let Some((parent, start, sibling)) = sibling
                && parent == point.parent
                && self.nodes[sibling].target.contains(&slot)
            {
                slot = if side.is_before() { start } else { self.nodes[sibling].target.end - 1 };
                at = units.offset(side, slot);
            }
            let rank = if side.is_before() { 0 } else { 2 };
            let (parent, content) = (point.parent, Content::Point(index));
            children.push(Child { parent, key: (slot, rank, point.order), at, content });
        }
        children.sort_by_key(|child| (child.parent, child.key));
        children
    }

    /// Start of an element in the translation. Punctuation before its first word stays outside, if it is
    /// outside in the source.
    fn begin(&self, node: usize, units: &Units<'_>) -> usize {
        let node = &self.nodes[node];
        let (Some((first, _)), true) = (node.covered, node.starts) else { return 0 };
        let Some(target) = units.target.get(node.target.start) else { return 0 };
        let unit = &units.source[first];
        let outside = units.source_text.get(unit.start..node.source.start).unwrap_or_default();
        if outside.chars().any(char::is_alphanumeric) || outside.is_empty() {
            target.start
        } else {
            units::core(units.target_text, target).start
        }
    }

    /// End of an element in the translation: see [`begin`](Self::begin).
    fn stop(&self, node: usize, units: &Units<'_>) -> usize {
        let end = units.target_text.len();
        let node = &self.nodes[node];
        let (Some((_, last)), true) = (node.covered, node.ends) else { return end };
        let last_target = node.target.end.checked_sub(1);
        let Some(target) = last_target.and_then(|last| units.target.get(last)) else { return end };
        let unit = &units.source[last];
        let outside = units.source_text.get(node.source.end..unit.end).unwrap_or_default();
        if outside.chars().any(char::is_alphanumeric) || outside.is_empty() {
            target.end
        } else {
            units::core(units.target_text, target).end
        }
    }

    /// Writes all elements around the whole translation, which has fewer characters than they are.
    fn write_chain(&self, writer: &mut Writer<'_>) {
        self.nodes.iter().for_each(|node| writer.tag(node.open));
        writer.text(writer.translation.len());
        self.nodes.iter().rev().for_each(|node| writer.tag(node.close));
        self.points.iter().for_each(|point| writer.inline(point.raw, &point.kind));
    }
}

/// A child of an element.
#[derive(Debug)]
struct Child {
    parent: usize,
    /// Target unit, before, in or after it, and place in the source.
    key: (usize, u8, usize),
    /// Position in the translation.
    at: usize,
    content: Content,
}

#[derive(Debug, Clone, Copy)]
enum Content {
    Node(usize),
    Point(usize),
}

/// End tags of elements that began in an earlier sentence, and contain everything before. An end tag in
/// another element is none.
fn outer_ends(sentence: &Segment, partners: &[Option<usize>]) -> Vec<usize> {
    let mut open: Vec<usize> = Vec::new();
    let mut outer = Vec::new();
    for (index, inline) in sentence.inlines.iter().enumerate() {
        match (&inline.kind, partners[index]) {
            (InlineKind::Open(_), _) => open.push(index),
            (InlineKind::Close(_), Some(start)) => {
                while open.pop().is_some_and(|last| last != start) {}
            }
            (InlineKind::Close(_), None) if open.is_empty() => outer.push(index),
            (InlineKind::Close(_) | InlineKind::Void | InlineKind::Atom(_), _) => {}
        }
    }
    outer
}

fn union(one: Option<(usize, usize)>, other: Option<(usize, usize)>) -> Option<(usize, usize)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
