//! The man pages of `larder`.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use larder_options::LARDER_VERSION;

/// Returns the pages of the command and of its subcommands, each with its name.
pub(super) fn pages(command: Command) -> Vec<(String, Vec<u8>)> {
    let mut command = command.disable_help_subcommand(true).version(LARDER_VERSION);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages);
    pages
}

fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    pages.push((name, page(command).expect("a vector takes every byte")));
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        collect(subcommand, pages);
    }
}

/// Returns the page. Keeps the line breaks of examples, which clap_mangen would join.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let source = format!("Larder {LARDER_VERSION}");
    let man = Man::new(command.clone()).source(source).manual("Larder");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let mut roff = Roff::new();
        roff.control("SH", ["NOTES"]).control("nf", []);
        for line in text.to_string().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.to_writer(&mut page)?;
    }
    if command.has_subcommands() {
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]).text([roman("larderd(1)")]);
        roff.to_writer(&mut page)?;
    }
    page.flush()?;
    Ok(page)
}
