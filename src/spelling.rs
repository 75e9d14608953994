//! Suggestions for misspelt words.

/// Suggests a similar word or, if there is none, lists the known ones.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    const SHOWN: usize = 20;
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "none are known".into(),
        None => {
            let more = if known.len() > SHOWN { ", …" } else { "" };
            let shown = &known[..known.len().min(SHOWN)];
            format!("known are {}{more}", shown.join(", "))
        }
    }
}

/// Returns the known word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = word.to_ascii_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&known.to_ascii_lowercase(), &lower);
    // Only words of a similar length are similar, and some words are very long.
    let similar = known.iter().filter(|known| word.len() <= 2 * known.len());
    let (distance, near) = similar.map(|known| (distance(known), *known)).min()?;
    (distance <= near.len() / 2).then_some(near)
}
