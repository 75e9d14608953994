//! Reads the request of a line: its time, client, method and path. Their fields have usual names or those of the arguments.

use std::{borrow::Cow, net::IpAddr};

use super::{
    LineError, LogArgs,
    value::{YEAR, address, instant, method_and_path, path_of},
};

/// The usual names of the time, in the order in which they are looked for.
const TIMES: &str =
    "StartUTC start_time ts msec time timestamp @timestamp time_iso8601 time_local datetime date";

/// The usual names of the client's address. Those of headers that clients send are not among them.
const ADDRESSES: &str = "client_ip remote_ip remote_addr downstream_remote_address ip client address remote ClientAddr \
                         clientip x_real_ip c-ip";

const METHODS: &str = "request_method method verb RequestMethod cs-method";

const PATHS: &str = "request_uri uri path url target RequestPath cs-uri-stem cs-uri";

/// A line whose values have names.
pub(super) trait Line {
    /// Returns the value of a field. From a list, such as a header's values, it returns the first.
    fn field(&self, name: &str) -> Option<Cow<'_, str>>;

    /// Returns the value of a field, with commas between the values of a list.
    fn list(&self, name: &str) -> Option<Cow<'_, str>> {
        self.field(name)
    }

    /// Returns whether the names in the arguments do not apply to the line.
    fn has_fixed_names(&self, _: &LogArgs) -> bool {
        false
    }
}

impl LogArgs {
    /// Returns the instant of the request, in microseconds since the Unix epoch.
    pub(super) fn time_of(&self, line: &impl Line) -> Result<u64, LineError> {
        if let Some(name) = self.chosen(&self.time, line) {
            return instant(&line.field(name).ok_or(LineError::NoTime)?);
        }
        let joined = line.field("date").zip(line.field("time"));
        let joined = joined.map(|(date, time)| instant(&format!("{date} {time}")));
        let named = TIMES.split(' ').filter_map(|name| line.field(name));
        let named = named.map(|text| instant(&text));
        let mut doubtful = None;
        for read in joined.filter(Result::is_ok).into_iter().chain(named) {
            match read {
                Ok(YEAR..) => return read,
                Err(LineError::Date) => doubtful = Some(read),
                _ => _ = doubtful.get_or_insert(read),
            }
        }
        doubtful.unwrap_or(Err(LineError::NoTime))
    }

    /// Returns the client's address.
    pub(super) fn address_of(&self, line: &impl Line) -> Result<IpAddr, LineError> {
        let read = |name: &str| Some(address(&line.list(name)?, self.hops));
        let found = match self.chosen(&self.address, line) {
            Some(name) => read(name),
            None => {
                let mut usual = ADDRESSES.split(' ').filter_map(read);
                usual.find(|read| *read != Err(LineError::NoAddress))
            }
        };
        found.unwrap_or(Err(LineError::NoAddress))
    }

    /// Returns the method and the path without the query, from fields of their own or from a whole request line.
    pub(super) fn request_of(&self, line: &impl Line) -> (String, String) {
        let find = |name: &Option<String>, usual: &str| match self.chosen(name, line) {
            Some(name) => line.field(name),
            None => usual.split(' ').find_map(|name| line.field(name)),
        };
        let whole = line.field("request").unwrap_or_default();
        let (first, second) = method_and_path(&whole);
        let target = find(&self.path, PATHS);
        let path = target.map_or(second, |target| path_of(&target).to_owned());
        let method = find(&self.method, METHODS);
        (method.map_or(first, Cow::into_owned), path)
    }

    /// Returns the name of a field in the arguments, unless the names of the line are fixed.
    fn chosen<'a>(&self, name: &'a Option<String>, line: &impl Line) -> Option<&'a str> {
        name.as_deref().filter(|_| !line.has_fixed_names(self))
    }
}
