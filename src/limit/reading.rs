//! Reads the content of files. Defaults are a map from names to values. Overrides are a list of values, each with the ids of its
//! clients.

use super::{
    assembly::Assembly,
    file::{self, Document, Entry, Language, MapKey, Node, Value, scalar, unexpected},
    limit::Limit,
    mistake::{Mistakes, Reporter},
    name::LimitName,
};
use crate::{
    algorithm::{FieldReader, LimitError, MapForm},
    id::{IdFormat, shortened},
};

static DEFAULT: MapForm = MapForm {
    fields: &["number", "id", "shadow", "lease", "description", "docs"],
    has_values: true,
    around: "a map from limit names to their values",
    whole: "write its values, such as `10/s burst 20`, or `{}` to turn it off",
    misplaced: &[("ids", "they belong to overrides")],
};

static OVERRIDE: MapForm = MapForm {
    fields: &["ids"],
    has_values: true,
    around: "a list of `- name: {burst, count, period, ids}`",
    whole: "write its values, such as burst, count and period, and its ids",
    misplaced: &[
        ("id", "list the ids below `ids`"),
        ("shadow", "it belongs to defaults"),
    ],
};

/// The older form, with the id in the key.
static KEYED: MapForm = MapForm {
    fields: &[],
    has_values: true,
    around: "a list of `- name: {burst, count, period, ids}`",
    whole: "write its values, such as `10/s burst 20`",
    misplaced: &[
        ("ids", "the key has the id already"),
        ("id", "the key has the id already"),
    ],
};

static ID: MapForm = MapForm {
    fields: &["id", "comment"],
    has_values: false,
    around: "a list of ids",
    whole: "an id stands alone, or has a comment beside it",
    misplaced: &[],
};

/// Values without a name, as in an application's own configuration.
static VALUES: MapForm = MapForm {
    fields: &[],
    has_values: true,
    around: "a limit",
    whole: "write its values, such as burst, count and period",
    misplaced: &[],
};

/// Reads the values of a limit from JSON.
pub(super) fn limit(json: &str) -> Result<Limit, String> {
    let mistakes = Mistakes::default();
    let report = Reporter::new(&mistakes, None);
    let node = file::json::parse(json).map_err(|(_, message)| message)?;
    if let Some(line) = node.as_text() {
        return line.parse().map_err(|error: LimitError| error.to_string());
    }
    let limit = values(report, &VALUES, &node);
    let limit = mistakes.or(limit).map_err(|error| error.to_string());
    limit.and_then(|limit| limit.ok_or_else(|| VALUES.whole.into()))
}

/// Reads a limit in one line, or the values in a map.
fn values(report: Reporter<'_>, form: &'static MapForm, node: &Node<'_>) -> Option<Limit> {
    file::line(report, node).unwrap_or_else(|| Entry::new(report, form, node)?.limit(true))
}

/// An id, its comment and its line.
type ListedId<'a> = (&'a str, Option<&'a str>, u64);

impl Assembly {
    /// Adds the limits in a file of defaults.
    pub(super) fn read_defaults(&mut self, mistakes: &Mistakes, document: &Document) {
        let report = Reporter::new(mistakes, Some(&document.file));
        let root = document.tree(report);
        match root.as_ref().map(|root| (root, &root.value)) {
            Some((_, Value::Map(entries))) if !entries.is_empty() => {
                for (key, node) in limits(report, entries, &DEFAULT) {
                    self.read_default(report.of_limit(&key.text).at(key.line), node);
                }
                return;
            }
            Some((_, Value::Map(_) | Value::Nothing)) => {
                let remedy = "add some, or do not load the file";
                let message = "it contains no limits, so nothing would be limited";
                report.mistaken(format!("{message}: {remedy}"));
            }
            Some((root, _)) => unexpected(report, DEFAULT.around, root),
            None => {}
        }
        self.is_unsure = true;
    }

    fn read_default(&mut self, report: Reporter<'_>, node: &Node<'_>) {
        let before = report.count();
        let mut given = LimitName::from(report.limit.unwrap_or_default());
        let mut limit = None;
        if let Some(line) = file::line(report, node) {
            limit = line;
        } else if let Some(entry) = Entry::new(report, &DEFAULT, node) {
            limit = entry.limit(false);
            given.number = entry.whole("number");
            given.format = entry.parsed("id", |id| {
                let format = id.parse::<IdFormat>();
                format.map_err(|error| LimitError::value("id", error.to_string()))
            });
            given.shadow = entry.flag("shadow");
            given.lease = entry.parsed("lease", str::parse);
            given.description = entry.scalar("description").map(Into::into);
            given.docs = entry.scalar("docs").map(Into::into);
        }
        if !self.is_closed || self.is_known(report, &given.name) {
            self.define(report, &given, limit);
        }
        if report.count() > before {
            self.doubtful.insert(given.name);
        }
    }

    /// Adds the overrides in a file. An empty file is a mistake, because a full disk or a shell's `>` can truncate a file, and that
    /// must not unblock anyone.
    pub(super) fn read_overrides(&mut self, mistakes: &Mistakes, document: &Document) {
        let report = Reporter::new(mistakes, Some(&document.file));
        let Some(root) = document.tree(report) else {
            return;
        };
        match &root.value {
            Value::Nothing => {
                let nothing = match document.language {
                    Language::Toml => "`name = []` for a limit",
                    Language::Yaml | Language::Json => "`[]`",
                };
                let remedy = format!("write {nothing} if no client should have an override");
                report.mistaken(format!("it is empty: {remedy}"));
            }
            Value::List(items) => items.iter().for_each(|item| self.read_item(report, item)),
            Value::Map(entries) if entries.is_empty() => {}
            Value::Map(_) | Value::Text(_) => self.read_item(report, &root),
        }
    }

    fn read_item(&mut self, report: Reporter<'_>, item: &Node<'_>) {
        let entries = match &item.value {
            Value::Map(entries) if !entries.is_empty() => entries,
            _ => return unexpected(report, OVERRIDE.around, item),
        };
        for (key, node) in limits(report, entries, &OVERRIDE) {
            let report = report.at(key.line);
            let (name, id) = match key.text.split_once(':') {
                None => (&*key.text, None),
                Some((name, id)) if !name.is_empty() && !id.is_empty() => (name, Some(id)),
                Some(_) => {
                    let message = format!("the key of an override is `{}`", shortened(&key.text));
                    let remedy = "write the limit's name, a colon and an id";
                    report.mistaken(format!("{message}: {remedy}"));
                    continue;
                }
            };
            let report = report.of_limit(name);
            let is_known = self.is_known(report, name);
            let mut add = |report: Reporter<'_>, node| {
                let (limit, ids) = match id {
                    Some(id) => (
                        values(report.of_id(id), &KEYED, node),
                        vec![(id, None, key.line)],
                    ),
                    None => listed(report, node),
                };
                if is_known {
                    self.override_all(report, name, limit, &ids);
                }
            };
            match &node.value {
                // A list of maps is for languages in which a map cannot repeat a key.
                Value::List(nodes) => nodes
                    .iter()
                    .for_each(|node| add(report.at(node.line), node)),
                _ => add(report, node),
            }
        }
    }
}

/// Reads values, and the ids that have them.
fn listed<'a>(report: Reporter<'a>, node: &'a Node<'a>) -> (Option<Limit>, Vec<ListedId<'a>>) {
    let Some(entry) = Entry::new(report, &OVERRIDE, node) else {
        return (None, Vec::new());
    };
    let limit = entry.limit(true);
    let mut listed = Vec::new();
    entry.require(&["ids"]);
    match entry.get("ids").map(|ids| (ids, &ids.value)) {
        None => {}
        Some((_, Value::List(items))) if !items.is_empty() => {
            listed.extend(items.iter().filter_map(|item| listed_id(report, item)));
        }
        Some((ids, Value::List(_) | Value::Nothing)) => {
            let remedy = "list its clients, or remove it";
            let message = "ids is empty, so the override applies to nobody";
            report.at(ids.line).mistaken(format!("{message}: {remedy}"));
        }
        Some((ids, _)) => unexpected(report, ID.around, ids),
    }
    (limit, listed)
}

fn listed_id<'a>(report: Reporter<'a>, node: &'a Node<'a>) -> Option<ListedId<'a>> {
    match &node.value {
        Value::Nothing => Some(("", None, node.line)),
        Value::Map(_) => {
            let entry = Entry::new(report.at(node.line), &ID, node)?;
            entry.require(&["id"]);
            let comment = entry.scalar("comment");
            Some((entry.scalar("id")?, comment, node.line))
        }
        _ => Some((scalar(report, node)?, None, node.line)),
    }
}

/// Returns the names of limits in a map, with their values. Records names that are nested too deep, and fields that are not nested
/// deep enough.
fn limits<'a>(
    report: Reporter<'_>,
    mut entries: &'a [(MapKey<'a>, Node<'a>)],
    form: &'static MapForm,
) -> impl Iterator<Item = &'a (MapKey<'a>, Node<'a>)> {
    let is_line = |text: &str| text.parse::<Limit>().is_ok();
    let is_named = |(key, node): &(MapKey<'_>, Node<'_>)| {
        let is_limit = matches!(node.value, Value::Map(_)) || node.as_text().is_some_and(is_line);
        is_limit && form.find(&key.text).is_none()
    };
    if let [(key, node)] = entries
        && ["limits", "defaults", "overrides"].contains(&&*key.text)
        && let Value::Map(inner) = &node.value
        && !inner.is_empty()
        && inner.iter().all(is_named)
    {
        let remedy = format!("remove `{}:`, and the indentation below it", key.text);
        let message = format!("the names of limits stand at the top: {remedy}");
        report.at(key.line).mistaken(message);
        entries = inner;
    }
    let misplaced = entries.iter().find_map(|(key, node)| {
        let is_value = node.as_text().is_some_and(|text| !is_line(text));
        Some((form.find(&key.text).filter(|_| is_value)?, key.line))
    });
    if let Some((field, line)) = misplaced {
        let message = format!("{field} is a field of a limit, and not a limit");
        let remedy = "indent it below the name of its limit";
        report.at(line).mistaken(format!("{message}: {remedy}"));
    }
    // Fields at the level of names are misplaced, and the name above them is without values.
    entries.iter().filter(move |(key, node)| {
        let is_part = form.find(&key.text).is_some() || matches!(node.value, Value::Nothing);
        misplaced.is_none() || !is_part
    })
}
