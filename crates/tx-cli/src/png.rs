//! Rendering of SVG figures as PNG.

use std::sync::Arc;

use anyhow::{Context, bail};
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

use crate::usage::Usage;

/// Pixels per unit of the figure, enough for high-density screens and print.
const ZOOM: f32 = 2.0;
/// Maximum number of pixels per side, which bounds memory and exceeds every useful figure.
const MAX_PIXELS: f32 = 16_384.0;
/// Font families in order of preference; any other installed font is the fallback.
const FAMILIES: [&str; 6] =
    ["DejaVu Sans", "Noto Sans", "Segoe UI", "Helvetica Neue", "Arial", "Liberation Sans"];

/// Renders `svg` with the fonts of this system.
///
/// # Errors
///
/// [`Usage`] if the system has no font; otherwise if the figure is malformed or too large.
pub fn render(svg: &str) -> anyhow::Result<Vec<u8>> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    render_with(svg, fonts)
}

fn render_with(svg: &str, mut fonts: Database) -> anyhow::Result<Vec<u8>> {
    let names = |face: &resvg::usvg::fontdb::FaceInfo| {
        face.families.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let present: Vec<String> = fonts.faces().flat_map(names).collect();
    let wanted = FAMILIES.iter().find(|name| present.iter().any(|present| present == *name));
    let Some(family) = wanted.map(|name| (*name).to_owned()).or_else(|| present.first().cloned())
    else {
        let error = Usage::new("no system font found for the labels of a PNG picture");
        return Err(error
            .with_hint(
                "install a font, such as `fonts-dejavu-core`, or write .svg or .html instead",
            )
            .into());
    };
    fonts.set_sans_serif_family(family.clone());
    let options = Options { font_family: family, fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).context("cannot render the figure")?;
    let size = tree.size();
    let zoom = ZOOM.min(MAX_PIXELS / size.width().max(size.height()));
    let pixels = |length: f32| (length * zoom).ceil().max(1.0) as u32;
    let Some(mut pixmap) = Pixmap::new(pixels(size.width()), pixels(size.height())) else {
        bail!("a picture of {} × {} units is too large", size.width(), size.height());
    };
    resvg::render(&tree, Transform::from_scale(zoom, zoom), &mut pixmap.as_mut());
    pixmap.encode_png().context("cannot encode the figure")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'>\
                       <rect width='40' height='20' fill='#0f234a'/></svg>";

    #[test]
    fn without_a_font_the_error_names_the_cause_and_the_remedy() {
        let error = render_with(SVG, Database::new()).unwrap_err();
        assert!(error.to_string().contains("no system font"), "{error}");
        assert!(error.downcast_ref::<Usage>().unwrap().hint().unwrap().contains(".svg"));
    }

    #[test]
    fn a_picture_has_twice_the_size_and_the_colors_of_the_figure() {
        let Ok(png) = render(SVG) else {
            // A system without fonts is the case of the test above.
            return;
        };
        let picture = Pixmap::decode_png(&png).unwrap();
        assert_eq!((picture.width(), picture.height()), (80, 40));
        let pixel = picture.pixel(40, 20).unwrap();
        assert_eq!((pixel.red(), pixel.green(), pixel.blue()), (0x0f, 0x23, 0x4a));
    }
}
