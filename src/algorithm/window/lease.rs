use super::window::Window;
use crate::algorithm::lease::Leasing;

impl Leasing for Window {
    fn divisible(&self) -> Result<u32, &'static str> {
        Err("a window cannot be leased, because each of its units counts from its own instant")
    }
}
