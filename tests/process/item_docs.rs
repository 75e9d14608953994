//! Public items, which have an example or a link that leads to one.
//!
//! rustdoc shows methods, fields and variants on the page of their item, whose example is for them too. A link counts only if
//! its target has an example.

use std::{collections::BTreeMap, fs, path::Path};

use crate::source_files::source_files;

/// What can be linked to: items by name, methods by `Type::name`, and modules by their last segment, with their documentation.
#[derive(Default)]
struct Index {
    docs: BTreeMap<String, Vec<String>>,
    /// The items that need an example: where, what, and the documentation with the links.
    items: Vec<Item>,
}

struct Item {
    place: String,
    name: String,
    docs: String,
    /// The names of the modules that `self` and `super` stand for.
    module: String,
    parent: String,
}

const KINDS: [&str; 8] = [
    "struct ", "enum ", "trait ", "fn ", "type ", "const ", "static ", "mod ",
];

/// The name that a line declares, if that is public.
fn declared(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(name) = rest.strip_prefix("macro_rules! ") {
        return name.split([' ', '{']).next();
    }
    rest = rest.strip_prefix("pub ")?;
    for word in ["const fn ", "async fn "] {
        if let Some(name) = rest.strip_prefix(word) {
            return name.split(['(', '<']).next();
        }
    }
    let name = KINDS.iter().find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// The type whose methods follow a line such as `impl<B: Backend> Lease<B> {`, or the trait that a line declares.
fn owner(line: &str) -> Option<String> {
    let Some(rest) = line.strip_prefix("impl") else {
        let name = line.strip_prefix("pub trait ")?;
        return name.split([':', ' ', '<']).next().map(str::to_owned);
    };
    let mut depth = 0;
    let after = rest.find(|c: char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c != '>'
    })?;
    let target = rest[after..].rsplit(" for ").next()?.trim_start();
    let name = target.split(['<', ' ', '{']).next()?;
    Some(name.to_owned())
}

/// The documentation and the attributes above a line.
fn above<'a>(lines: &'a [&str]) -> (String, Vec<&'a str>) {
    let (mut docs, mut attributes) = (Vec::new(), Vec::new());
    let mut is_in_attribute = false;
    for line in lines.iter().rev().map(|line| line.trim_start()) {
        if is_in_attribute || line.starts_with("#[") {
            attributes.push(line);
            is_in_attribute = !line.starts_with("#[");
        } else if line.starts_with("///") {
            docs.push(line.trim_start_matches('/').trim_start());
        } else if line == ")]" {
            is_in_attribute = true;
        } else {
            break;
        }
    }
    docs.reverse();
    (docs.join("\n"), attributes)
}

/// The name of a file's module, and that of the module around it.
fn modules(path: &Path) -> (String, String) {
    let mut segments: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let file = segments.pop().expect("a file").trim_end_matches(".rs");
    if !["mod", "lib"].contains(&file) {
        segments.push(file);
    }
    let name = segments.pop().unwrap_or("src").to_owned();
    (name, segments.pop().unwrap_or("src").to_owned())
}

impl Index {
    fn add_file(&mut self, path: &Path) {
        let text = fs::read_to_string(path).expect("UTF-8");
        let (module, parent) = modules(path);
        let inner = text.lines().take_while(|line| line.starts_with("//!"));
        let inner: Vec<_> = inner.map(|line| line.trim_start_matches("//!")).collect();
        self.link(module.clone(), inner.join("\n"));
        let code = text.split("\nmod tests {").next().unwrap_or(&text);
        let lines: Vec<_> = code.lines().collect();
        let mut owner_of_methods = None;
        for (i, line) in lines.iter().enumerate() {
            if let Some(owner) = owner(line) {
                owner_of_methods = Some(owner);
            }
            let is_method = line.starts_with("    fn ") || line.starts_with("    pub ");
            let name = match is_method {
                true => declared(&line.replacen("    fn ", "    pub fn ", 1)).map(str::to_owned),
                false => declared(line).map(str::to_owned),
            };
            let Some(name) = name else { continue };
            let (docs, attributes) = above(&lines[..i]);
            match (is_method, &owner_of_methods) {
                (true, Some(owner)) => self.link(format!("{owner}::{name}"), docs),
                (true, None) => {}
                (false, _) => {
                    self.add_item(path, line, name, docs, &attributes, [&module, &parent]);
                }
            }
        }
    }

    fn add_item(
        &mut self,
        path: &Path,
        line: &str,
        name: String,
        docs: String,
        attributes: &[&str],
        [module, parent]: [&String; 2],
    ) {
        let is_hidden = attributes.iter().any(|one| one.contains("doc(hidden)"));
        let is_macro = line.starts_with("macro_rules!");
        let is_exported = attributes.iter().any(|one| one.contains("macro_export"));
        if is_hidden
            || is_macro && !is_exported
            || line.contains("mod $module")
            || docs.is_empty() && line.starts_with("pub mod")
        {
            return;
        }
        self.link(name.clone(), docs.clone());
        self.items.push(Item {
            name,
            place: format!("{}: {line}", path.display()),
            docs,
            module: module.clone(),
            parent: parent.clone(),
        });
    }

    fn link(&mut self, name: String, docs: String) {
        self.docs.entry(name).or_default().push(docs);
    }

    /// Whether an item has an example, or a link to something that has one.
    fn leads(&self, item: &Item) -> bool {
        let of_methods = item.name.chars().next().is_some_and(char::is_uppercase);
        item.docs.contains("```")
            || of_methods && self.page_has_example(&item.name)
            || links(&item.docs).any(|link| self.has_example(&link, item))
    }

    /// Whether a type or a trait has an example, or one of its methods.
    fn page_has_example(&self, name: &str) -> bool {
        let methods = format!("{name}::");
        let on_page = |key: &str| key == name || key.starts_with(&methods);
        let mut docs = self.docs.iter().filter(|(key, _)| on_page(key));
        docs.any(|(_, docs)| docs.iter().any(|docs| docs.contains("```")))
    }

    fn has_example(&self, link: &str, item: &Item) -> bool {
        // A page of the guide is a file.
        if link.contains("guide::") {
            return true;
        }
        let path = link
            .split('#')
            .next()
            .unwrap_or(link)
            .trim_end_matches("()");
        let segments: Vec<_> = path.split("::").collect();
        let is_type = |name: &str| name.starts_with(char::is_uppercase);
        match segments[..] {
            ["self"] => self.page_has_example(&item.module),
            ["super"] => self.page_has_example(&item.parent),
            [.., owner, _] if is_type(owner) => self.page_has_example(owner),
            [.., name] => self.page_has_example(name),
            [] => false,
        }
    }
}

/// The targets of links in documentation: `[text](target)`, and [`target`].
fn links(docs: &str) -> impl Iterator<Item = String> {
    let named = docs.split("](").skip(1);
    let named = named.filter_map(|link| link.split(')').next());
    let bare = docs.split("[`").skip(1);
    let bare = bare.filter_map(|link| link.split_once("`]").map(|(target, _)| target));
    let targets = named.chain(bare.filter(|target| !target.contains('`')));
    targets.map(str::to_owned)
}

fn index() -> Index {
    let mut all = source_files();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    // The cases are public for the macro, and hidden, as is what they are made of.
    all.retain(|path| !path.starts_with("src/testing") || path.ends_with("mod.rs"));
    let mut index = Index::default();
    for path in all {
        index.add_file(&path);
    }
    index
}

#[test]
fn public_items_have_an_example_or_a_link_to_one() {
    let index = index();
    let without = index.items.iter().filter(|item| !index.leads(item));
    let without: Vec<_> = without.map(|item| &item.place).collect();
    assert!(without.is_empty(), "{without:#?}");
    assert!(index.items.len() > 100, "{}", index.items.len());
}

#[test]
fn link_to_an_item_without_an_example_does_not_count() {
    let index = index();
    let item = |docs: &str| Item {
        place: String::new(),
        name: String::new(),
        docs: docs.to_owned(),
        module: "gcra".to_owned(),
        parent: "src".to_owned(),
    };
    for docs in [
        "```\nlet x;\n```",
        "See [`Limiter`].",
        "See [it](super::RateLimitLayer::new).",
    ] {
        assert!(index.leads(&item(docs)), "{docs}");
    }
    for docs in [
        "",
        "See [`Duration`](std::time::Duration).",
        "See [`InvalidNow`].",
        "See [`x`].",
    ] {
        assert!(!index.leads(&item(docs)), "{docs}");
    }
}
