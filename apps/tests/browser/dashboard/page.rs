//! The dashboard in a browser, and the server that it watches.

use serde_json::json;

use crate::{
    browser::Browser,
    programs::{Program, Response, Server},
};

pub(crate) const TOKEN: &str = "correct-horse-battery-staple";

/// The server that limits, and the one of the page.
pub(crate) struct Servers {
    pub(crate) app: Server,
    pub(crate) page: Server,
    _program: Program,
}

impl Servers {
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let own = [
            ("ADMIN_TOKEN", TOKEN),
            ("ADDR", "127.0.0.1:0"),
            ("ADMIN_ADDR", "127.0.0.1:0"),
        ];
        let program = Program::start_in("dashboard", &[&own[..], variables].concat());
        Self {
            app: program.next_server(),
            page: program.next_server_after("dashboard on http://"),
            _program: program,
        }
    }

    /// Makes requests as one client, and returns how many were allowed and how many denied.
    pub(crate) fn ask(&self, times: usize, path: &str, account: &str) -> (usize, usize) {
        let headers = [("x-account", account)];
        let responses = self.app.get_often(times, path, &headers);
        let count = |status| responses.iter().filter(|one| one.status == status).count();
        let counts = (count(200), count(429));
        assert_eq!(counts.0 + counts.1, times, "{path} as {account}");
        counts
    }

    /// The five exports that a client has each day, and as many denials.
    pub(crate) fn deny_exports(&self, denials: usize, account: &str) {
        let counts = self.ask(5 + denials, "/export", account);
        assert_eq!(counts, (5, denials), "{account}");
    }

    /// Asks the page's server with the token.
    pub(crate) fn get(&self, path: &str) -> Response {
        let bearer = format!("Bearer {TOKEN}");
        self.page.get(path, &[("authorization", &bearer)])
    }
}

/// A browser at the dashboard.
pub(crate) struct Dashboard {
    pub(crate) browser: Browser,
    pub(crate) servers: Servers,
}

impl Dashboard {
    /// Opens the page and signs in.
    pub(crate) fn open() -> Self {
        Self::open_with(&[])
    }

    pub(crate) fn open_with(variables: &[(&str, &str)]) -> Self {
        let dashboard = Self::locked(variables);
        dashboard.sign_in(TOKEN);
        dashboard.browser.wait_for("body[data-state=open]");
        dashboard
    }

    /// Opens the page, which asks for the token.
    pub(crate) fn locked(variables: &[(&str, &str)]) -> Self {
        let servers = Servers::start(variables);
        let browser = Browser::start();
        browser.open(&servers.page.url());
        browser.wait_for("#token:focus");
        Self { browser, servers }
    }

    pub(crate) fn sign_in(&self, token: &str) {
        self.set("token", token);
        self.browser.click("#gate button");
    }

    /// Writes a text into a field that keys cannot type.
    pub(crate) fn set(&self, id: &str, text: &str) {
        let text = json!(text);
        self.browser
            .run(&format!("document.getElementById('{id}').value = {text}"));
    }

    /// Looks up a bucket, and waits for an answer: the bucket's key, or an error.
    pub(crate) fn look_up(&self, limit: &str, id: &str) -> Result<String, String> {
        // In one step: the page shows the previous bucket again and again.
        let (limit, id) = (json!(limit), json!(id));
        self.browser.run(&format!(
            "const of = (id) => document.getElementById(id);
            of('limit').value = {limit};
            of('id').value = {id};
            document.querySelector('#lookup button').click();
            of('found-key').textContent = '';"
        ));
        self.browser.wait_until(
            "!document.getElementById('bucket-error').hidden \
             || document.getElementById('found-key').textContent",
        );
        if self.shows("#bucket-error") {
            Err(self.content("#bucket-error"))
        } else {
            Ok(self.content("#found-key"))
        }
    }

    pub(crate) fn shows(&self, selector: &str) -> bool {
        let script = format!(
            "return document.querySelector({}).checkVisibility()",
            json!(selector)
        );
        self.browser.run(&script) == true
    }

    /// The text of an element, as the server sent it.
    pub(crate) fn content(&self, selector: &str) -> String {
        let script = format!(
            "return document.querySelector({}).textContent",
            json!(selector)
        );
        let text = self.browser.run(&script);
        text.as_str().expect(selector).to_owned()
    }

    /// Waits until an element has a text.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.browser.wait_until(&format!(
            "document.querySelector({selector})?.textContent === {text}"
        ));
    }

    /// The denied clients: id, limit, and how often.
    pub(crate) fn denied(&self) -> Vec<[String; 3]> {
        let rows = self.browser.run(
            "return [...document.querySelectorAll('#clients tr')].map((row) =>
                ['code', '.of', '.number'].map((part) => row.querySelector(part).textContent))",
        );
        serde_json::from_value(rows).unwrap()
    }

    /// Waits until the page lists this number of denied clients.
    #[track_caller]
    pub(crate) fn wait_for_clients(&self, clients: usize) {
        self.browser.wait_until(&format!(
            "document.querySelectorAll('#clients tr').length === {clients}"
        ));
    }
}
