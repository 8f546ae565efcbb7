//! Colors of weights: one hue with evenly spaced lightness, so that the order is also visible in
//! gray and with color blindness.

/// Colors from zero to the largest weight in light mode: OKLCH lightness falls evenly from 0.985 to
/// 0.265 at hue 256 to 262.
pub const LIGHT: [&str; 11] = [
    "#f8fafd", "#d3e4fb", "#afcdf7", "#8cb6f3", "#699eee", "#4d86e0", "#3970c8", "#2f5ba7",
    "#244886", "#193567", "#0f234a",
];

/// Colors in dark mode: lightness rises evenly from 0.23 to 0.95.
pub const DARK: [&str; 11] = [
    "#161e26", "#07314f", "#02456b", "#015b84", "#06719c", "#0089b5", "#0ea1cd", "#22bae3",
    "#67d0ed", "#a0e4f3", "#e0f2f6",
];

/// Colors from -1 to 1 on white: red, white, blue, which differ in lightness from the middle to both
/// ends and are distinguishable with color blindness (RdBu of Brewer 2003).
pub const DIVERGING: [&str; 11] = [
    "#67001f", "#b2182b", "#d6604d", "#f4a582", "#fddbc7", "#f7f7f7", "#d1e5f0", "#92c5de",
    "#4393c3", "#2166ac", "#053061",
];

/// Returns the interpolated color (red, green, blue) of a weight, given as a fraction `0..=1` of
/// the largest.
pub fn color(scale: &[&str; 11], fraction: f32) -> [u8; 3] {
    let position = fraction.clamp(0.0, 1.0) * (scale.len() - 1) as f32;
    let (low, part) = (position.floor() as usize, position.fract());
    let (from, to) = (rgb(scale[low]), rgb(scale[(low + 1).min(scale.len() - 1)]));
    std::array::from_fn(|channel| {
        let (from, to) = (f32::from(from[channel]), f32::from(to[channel]));
        (from + part * (to - from)).round() as u8
    })
}

/// Formats a color as `#rrggbb`.
pub fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Returns the text color, black or white, with the higher contrast on `background`.
pub fn ink(background: [u8; 3]) -> &'static str {
    // Black and white have the same contrast at luminance 0.179.
    if luminance(background) > 0.179 { "#000000" } else { "#ffffff" }
}

/// Relative luminance as defined by WCAG 2.
fn luminance(color: [u8; 3]) -> f32 {
    let linear = color.map(|channel| {
        let value = f32::from(channel) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    0.212_6 * linear[0] + 0.715_2 * linear[1] + 0.072_2 * linear[2]
}

fn rgb(hex: &str) -> [u8; 3] {
    let channel = |at: usize| hex.get(at..at + 2).and_then(|x| u8::from_str_radix(x, 16).ok());
    [1, 3, 5].map(|at| channel(at).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lightness_is_monotonic_and_text_has_contrast() {
        for (scale, sign) in [(&LIGHT, -1.0), (&DARK, 1.0)] {
            let steps: Vec<f32> =
                (0..=100).map(|step| luminance(color(scale, step as f32 / 100.0))).collect();
            for pair in steps.windows(2) {
                assert!(sign * (pair[1] - pair[0]) > 0.0, "{scale:?}: {pair:?}");
            }
            // WCAG 2: (lighter + 0.05) / (darker + 0.05), at least 4.5 for text.
            for (step, background) in steps.iter().enumerate() {
                let ink = luminance(rgb(ink(color(scale, step as f32 / 100.0))));
                let contrast = (ink.max(*background) + 0.05) / (ink.min(*background) + 0.05);
                assert!(contrast >= 4.5, "{scale:?} at {step}: {contrast}");
            }
        }
    }

    #[test]
    fn colors_are_interpolated_linearly() {
        assert_eq!(hex(color(&LIGHT, 0.0)), LIGHT[0]);
        assert_eq!(hex(color(&LIGHT, 0.3)), LIGHT[3]);
        assert_eq!(hex(color(&LIGHT, 7.0)), LIGHT[10]);
        // Half way from #f8fafd to #d3e4fb: (248 + 211) / 2, (250 + 228) / 2, (253 + 251) / 2.
        assert_eq!(color(&LIGHT, 0.05), [230, 239, 252]);
        assert_eq!((ink([255; 3]), ink([0; 3])), ("#000000", "#ffffff"));
    }
}
