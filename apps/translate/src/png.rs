//! SVG as PNG.

use std::sync::Arc;

use anyhow::{Context, bail};
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

use crate::usage::Usage;

/// Pixels for a unit of the figure: sharp on dense screens and in print.
const ZOOM: f32 = 2.0;
/// Most pixels of a side: more than any figure needs, less than what fills the memory.
const MOST: f32 = 16_384.0;
/// What the figures ask for, in that order; else any font that is there.
const FAMILIES: [&str; 6] =
    ["DejaVu Sans", "Noto Sans", "Segoe UI", "Helvetica Neue", "Arial", "Liberation Sans"];

/// Draws `svg` with the fonts of this machine.
pub fn of_svg(svg: &str) -> anyhow::Result<Vec<u8>> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    draw(svg, fonts)
}

fn draw(svg: &str, mut fonts: Database) -> anyhow::Result<Vec<u8>> {
    let names = |face: &resvg::usvg::fontdb::FaceInfo| {
        face.families.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let present: Vec<String> = fonts.faces().flat_map(names).collect();
    let wanted = FAMILIES.iter().find(|name| present.iter().any(|present| present == *name));
    let Some(family) = wanted.map(|name| (*name).to_owned()).or_else(|| present.first().cloned())
    else {
        let error = Usage::new("this machine has no font to write the words of a picture with");
        return Err(error
            .with_hint("install one, as `fonts-dejavu-core`, or write .svg or .html instead")
            .into());
    };
    fonts.set_sans_serif_family(family.clone());
    let options = Options { font_family: family, fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).context("the figure cannot be drawn")?;
    let size = tree.size();
    let zoom = ZOOM.min(MOST / size.width().max(size.height()));
    let pixels = |length: f32| (length * zoom).ceil().max(1.0) as u32;
    let Some(mut pixmap) = Pixmap::new(pixels(size.width()), pixels(size.height())) else {
        bail!("a picture of {} × {} is too large", size.width(), size.height());
    };
    resvg::render(&tree, Transform::from_scale(zoom, zoom), &mut pixmap.as_mut());
    pixmap.encode_png().context("the figure cannot be encoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'>\
                       <rect width='40' height='20' fill='#0f234a'/></svg>";

    #[test]
    fn without_a_font_the_error_says_so() {
        let error = draw(SVG, Database::new()).unwrap_err();
        assert!(error.to_string().contains("no font"), "{error}");
        assert!(error.downcast_ref::<Usage>().unwrap().hint().unwrap().contains(".svg"));
    }

    #[test]
    fn a_picture_has_twice_the_size_and_the_colours_of_the_figure() {
        let Ok(png) = of_svg(SVG) else {
            // A machine without fonts: the test above.
            return;
        };
        let picture = Pixmap::decode_png(&png).unwrap();
        assert_eq!((picture.width(), picture.height()), (80, 40));
        let pixel = picture.pixel(40, 20).unwrap();
        assert_eq!((pixel.red(), pixel.green(), pixel.blue()), (0x0f, 0x23, 0x4a));
    }
}
