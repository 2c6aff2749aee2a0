//! What the examples are made of: models, what they learn, the loop that trains them. Written to be copied from.

pub mod classifier;
pub mod cnn;
pub mod data;
pub mod driver;
pub mod gpt;
pub mod images;
pub mod lstm;
pub mod picture;
pub mod planning;
pub mod progress;
pub mod resnet;
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
