//! Where things stand in a document.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Place {
    pub(super) fn of(location: &serde_saphyr::Location) -> Option<Self> {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (line, column) = (number(location.line()), number(location.column()));
        (line > 0).then_some(Self { line, column: column.max(1) })
    }

    /// The place of the byte at `offset`.
    pub(super) fn at(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The places of collections and of their items. The text is gone through a second time, when the first is asked for.
#[derive(Debug, Default)]
pub(super) struct Places {
    text: String,
    found: OnceLock<HashMap<(String, Option<usize>), Place>>,
}

impl Places {
    pub(super) fn new(text: String) -> Self {
        Self { text, found: OnceLock::new() }
    }

    /// Where a collection begins, or one of its items, counted from 0. JSON is YAML too.
    pub(super) fn of(&self, collection: &str, item: Option<usize>) -> Option<Place> {
        let find = || serde_saphyr::from_str::<Document>(&self.text).map(|root| root.0).unwrap_or_default();
        let found = self.found.get_or_init(|| if self.text.is_empty() { HashMap::new() } else { find() });
        found.get(&(collection.to_owned(), item)).copied()
    }
}

/// The places alone.
struct Document(HashMap<(String, Option<usize>), Place>);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Root)
    }
}

struct Root;

impl<'de> Visitor<'de> for Root {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut places = HashMap::new();
        while let Some(Spanned { value: name, referenced, .. }) = map.next_key::<Spanned<String>>()? {
            places.extend(Place::of(&referenced).map(|place| ((name.clone(), None), place)));
            for (index, place) in map.next_value::<Items>()?.0.into_iter().enumerate() {
                places.extend(place.map(|place| ((name.clone(), Some(index)), place)));
            }
        }
        Ok(Document(places))
    }
}

struct Items(Vec<Option<Place>>);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(List)
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Items;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items, A::Error> {
        let mut places = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<IgnoredAny>>()? {
            places.push(Place::of(&item.referenced));
        }
        Ok(Items(places))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Items, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Items(Vec::new()))
    }

    fn visit_unit<E>(self) -> Result<Items, E> {
        Ok(Items(Vec::new()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Items, E> {
        Ok(Items(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Items, E> {
        Ok(Items(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Items, E> {
        Ok(Items(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Items, E> {
        Ok(Items(Vec::new()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Items, E> {
        Ok(Items(Vec::new()))
    }
}
