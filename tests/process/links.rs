//! The links of all pages, as a clone and a host of repositories resolve them: files, and anchors of headings. rustdoc checks the
//! definitions of `src/guide/links.md`, which precede those of each page there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{BrokenLink, Event, Parser, Tag, TagEnd};

use crate::structure::files_below;

/// The definitions of the links in the documentation of the crate.
const IN_RUSTDOC: &str = "src/guide/links.md";

/// The paths of all pages, from the root of the repository.
fn pages() -> Vec<PathBuf> {
    let at_root = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ];
    let mut pages: Vec<_> = at_root.iter().map(PathBuf::from).collect();
    pages.extend(
        ["benches", "docs", "examples"]
            .into_iter()
            .flat_map(files_below),
    );
    pages.retain(|path| path.extension().is_some_and(|kind| kind == "md"));
    pages
}

/// The addresses of a page's links and images, and the labels that it does not define.
fn links(text: &str) -> (BTreeSet<String>, Vec<String>) {
    let mut undefined = Vec::new();
    let found = |link: BrokenLink<'_>| {
        undefined.push(link.reference.into_string());
        None
    };
    let options = pulldown_cmark::Options::ENABLE_TABLES;
    let parser = Parser::new_with_broken_link_callback(text, options, Some(found));
    let links = parser.filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some(dest_url.into_string())
        }
        _ => None,
    });
    (links.collect(), undefined)
}

/// The labels that a page defines, with their addresses.
fn definitions(text: &str) -> BTreeMap<String, String> {
    let parser = Parser::new(text);
    let defined = parser.reference_definitions().iter();
    defined
        .map(|(label, link)| (label.to_owned(), link.dest.clone().into_string()))
        .collect()
}

/// The anchors that a host of repositories, and rustdoc, give to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let title = heading.take().unwrap().to_lowercase();
                let kept = title.chars();
                let kept = kept.filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
                let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
                let mut number = 0;
                let mut unique = anchor.clone();
                while !anchors.insert(unique.clone()) {
                    number += 1;
                    unique = format!("{anchor}-{number}");
                }
            }
            _ => {}
        }
    }
    anchors
}

/// The path from the root that a link of a page leads to, or `None` if it leaves the repository.
fn target(page: &Path, link: &str) -> Option<PathBuf> {
    let mut path = page.parent().unwrap().to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

/// Returns why a link of a page leads nowhere.
fn mistake(page: &Path, text: &str, link: &str) -> Option<&'static str> {
    if let Some(site) = link.strip_prefix("https://") {
        // This crate is not published yet.
        return (site.contains("tollgate")).then_some("nothing is published there");
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let text = if file.is_empty() {
        text.to_owned()
    } else {
        let Some(path) = target(page, file).filter(|path| path.exists()) else {
            return Some("there is no such file");
        };
        fs::read_to_string(path).unwrap_or_default()
    };
    let is_there = anchor.is_empty() || anchors(&text).contains(anchor);
    (!is_there).then_some("the page has no such heading")
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let (links, undefined) = links(&text);
        assert_eq!(undefined, [""; 0], "{page:?} uses undefined labels");
        for link in links {
            let mistake = mistake(&page, &text, &link);
            assert_eq!(mistake, None, "{page:?}: {link}");
            seen += 1;
        }
    }
    assert!(seen > 150, "{seen}");
}

/// The file of `docs` that each module of the guide shows, by the module's path.
fn modules() -> BTreeMap<String, PathBuf> {
    let guide = fs::read_to_string("src/guide.rs").unwrap();
    let lines = guide.lines().filter_map(|line| line.rsplit_once(" = \""));
    let shown = lines.filter_map(|(module, file)| {
        let file = file
            .strip_suffix("\",")
            .filter(|file| file.ends_with(".md"))?;
        let name = module.split_whitespace().last()?;
        let folder = if file.starts_with("recipes/") {
            "recipes::"
        } else {
            ""
        };
        let path = format!("crate::guide::{folder}{name}");
        Some((path, Path::new("docs").join(file)))
    });
    let folders = [
        ("crate", "README.md"),
        ("crate::guide", "docs/README.md"),
        ("crate::guide::recipes", "docs/recipes/README.md"),
    ];
    let folders = folders.map(|(module, file)| (module.to_owned(), file.into()));
    shown.chain(folders).collect()
}

#[test]
fn guide_has_a_module_for_each_page() {
    let shown: BTreeSet<_> = modules().into_values().collect();
    let pages = pages().into_iter().filter(|page| page.starts_with("docs"));
    let front = PathBuf::from("README.md");
    assert_eq!(shown, pages.chain([front]).collect());
}

/// Returns whether a file of the repository is what a path of Rust, perhaps with an anchor, names.
fn is_of(path: &str, file: &Path, anchor: &str) -> bool {
    if let Some((_, shown)) = path.rsplit_once("/source/") {
        return file == Path::new(shown.trim_end_matches('/'));
    }
    let (path, section) = path.split_once('#').unwrap_or((path, ""));
    if let Some(page) = modules().get(path) {
        return file == page && anchor == section;
    }
    let text = fs::read_to_string(file).unwrap();
    if let Some((of, name)) = section.split_once("-for-") {
        let of = of.trim_start_matches("impl-");
        return text.contains(&format!("impl {of} for {name}"));
    }
    let headings = text.lines().filter_map(|line| line.strip_prefix("//! #"));
    let mut headings = headings.map(|rest| anchors(&format!("#{rest}")));
    let has_section = section.is_empty() || headings.any(|anchors| anchors.contains(section));
    has_section && (is_module(path, file) || defines(&text, path))
}

/// Returns whether a file is that of a module.
fn is_module(path: &str, file: &Path) -> bool {
    let module = PathBuf::from(path.replacen("crate", "src", 1).replace("::", "/"));
    file == module.with_extension("rs") || file == module.join("mod.rs")
}

/// Returns whether a file has an item of this name, or a field, or a variant.
fn defines(text: &str, path: &str) -> bool {
    let name = path.rsplit("::").next().unwrap();
    let items = ["fn", "struct", "enum", "trait"].map(|kind| format!("{kind} {name}"));
    let members = [format!("    {name},"), format!("pub {name}: ")];
    let mut forms = items.iter().chain(&members);
    forms.any(|form| text.contains(form))
}

/// A label that rustdoc does not know would lead to a file there.
#[test]
fn labels_lead_to_the_same_in_the_documentation() {
    let in_rustdoc = definitions(&fs::read_to_string(IN_RUSTDOC).unwrap());
    let mut used = BTreeSet::new();
    for page in modules()
        .into_values()
        .filter(|page| page.starts_with("docs"))
    {
        let text = fs::read_to_string(&page).unwrap();
        let defined = definitions(&text);
        for (label, link) in &defined {
            let Some(path) = in_rustdoc.get(label) else {
                assert!(link.starts_with("https://"), "{page:?}: [{label}]");
                continue;
            };
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = target(&page, file).unwrap();
            assert!(is_of(path, &file, anchor), "{page:?}: [{label}]: {link}");
            used.insert(label.clone());
        }
        let is_of_both = |link: &String| {
            link.starts_with("https://")
                || link.starts_with('#')
                || defined.values().any(|it| it == link)
        };
        let (links, _) = links(&text);
        let inline = links.iter().find(|link| !is_of_both(link));
        assert_eq!(inline, None, "{page:?} links without a label");
        let unused = defined.values().find(|link| !links.contains(*link));
        assert_eq!(unused, None, "{page:?} defines and does not use");
    }
    let unused = in_rustdoc.keys().find(|label| !used.contains(*label));
    assert_eq!(unused, None, "{IN_RUSTDOC} has labels that no page uses");
}

#[test]
fn list_of_pages_has_every_page_example_and_app() {
    let list = fs::read_to_string("docs/README.md").unwrap();
    let (links, _) = links(&list);
    let listed = links.iter().map(|link| Path::new("docs").join(link));
    let listed: BTreeSet<_> = listed.filter(|path| path.extension().is_some()).collect();
    for page in modules()
        .into_values()
        .filter(|page| page.starts_with("docs"))
    {
        assert!(
            page.ends_with("docs/README.md") || listed.contains(&page),
            "{page:?}"
        );
    }

    for (section, folder) in [("Examples", "examples"), ("Apps", "apps/src/bin")] {
        assert_eq!(listed_programs(&list, section), programs(folder));
    }
}

/// Returns the names in the first column of the table of a section.
fn listed_programs(text: &str, section: &str) -> BTreeSet<String> {
    let (_, text) = text.split_once(&format!("## {section}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap_or(text);
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split('|').next().unwrap_or(row));
    let names = cells.flat_map(|cell| cell.split(", "));
    names
        .map(|name| name.replace('`', "").trim().to_owned())
        .collect()
}

/// Returns the names of the programs in a folder.
fn programs(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    let programs = entries.map(|entry| entry.unwrap().path());
    let programs = programs.filter(|path| {
        path.extension().is_some_and(|kind| kind == "rs") || path.join("main.rs").exists()
    });
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    programs.map(name).collect()
}
