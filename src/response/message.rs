//! Messages for humans. They are written without `fmt`, because denials must be fast.

/// The destination of a message.
pub(super) trait Message {
    /// Adds words of this crate, which need no escaping.
    fn words(&mut self, words: &str);

    /// Adds text from elsewhere: a name, an id, a link.
    fn text(&mut self, text: &str);
}

impl Message for String {
    #[inline]
    fn words(&mut self, words: &str) {
        self.push_str(words);
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.push_str(text);
    }
}
