//! What the examples are made of: a GPT, the text it learns, the loop that trains it. Written to be copied from.

pub mod data;
pub mod gpt;
pub mod picture;
pub mod planning;
pub mod progress;
pub mod sample;
pub mod train;

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_shows_the_quickstart_as_it_is() {
        let readme = include_str!("../../README.md");
        assert!(readme.contains(include_str!("../quickstart.rs").trim_end()));
    }
}
