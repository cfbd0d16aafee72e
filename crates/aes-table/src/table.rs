//! The table, computed when the crate is compiled.

/// A byte times two in the field of AES (FIPS 197, section 4.3).
pub(crate) const fn doubled(byte: u8) -> u8 {
    byte << 1 ^ if byte & 0x80 == 0 { 0 } else { 0x1b }
}

/// For each byte its image under the S-box times 2, 1, 1 and 3, from the highest byte on: what
/// SubBytes and MixColumns make of the first row of a column.
pub(crate) static TABLE: [u32; 256] = table();

/// The image of a byte under the S-box (FIPS 197, section 5.1.1).
#[inline(always)]
pub(crate) fn substituted(byte: u8) -> u8 {
    (TABLE[byte as usize] >> 8) as u8
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    table[0] = entry(0);
    // 3 generates the field's other elements. Its powers and those of its inverse meet each element
    // together with the element's inverse.
    let (mut power, mut inverse) = (1u8, 1u8);
    loop {
        table[power as usize] = entry(inverse);
        power ^= doubled(power);
        inverse = divided_by_three(inverse);
        if power == 1 {
            return table;
        }
    }
}

/// The quotient of a byte and 3 in the field: its product with 0xf6.
const fn divided_by_three(byte: u8) -> u8 {
    let (mut product, mut factor, mut multiple) = (0, 0xf6u8, byte);
    while factor != 0 {
        if factor & 1 == 1 {
            product ^= multiple;
        }
        multiple = doubled(multiple);
        factor >>= 1;
    }
    product
}

/// The entry of the byte with this inverse.
const fn entry(inverse: u8) -> u32 {
    let turns = inverse
        ^ inverse.rotate_left(1)
        ^ inverse.rotate_left(2)
        ^ inverse.rotate_left(3)
        ^ inverse.rotate_left(4);
    let image = turns ^ 0x63;
    let twice = doubled(image);
    u32::from_be_bytes([twice, image, image, twice ^ image])
}
