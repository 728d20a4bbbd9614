/** The names of the characters 160 to 255, in order. */
const latin = (
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn ' +
  'sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave ' +
  'Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ' +
  'ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN ' +
  'szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave ' +
  'iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ' +
  'ucirc uuml yacute thorn yuml'
).split(' ');

const named: ReadonlyMap<string, string> = new Map([
  ...latin.map((name, at): [string, string] => [name, String.fromCharCode(160 + at)]),
  ['amp', '&'],
  ['apos', "'"],
  ['bull', '•'],
  ['dagger', '†'],
  ['euro', '€'],
  ['gt', '>'],
  ['hellip', '…'],
  ['ldquo', '“'],
  ['lsaquo', '‹'],
  ['lsquo', '‘'],
  ['lt', '<'],
  ['mdash', '—'],
  ['minus', '−'],
  ['ndash', '–'],
  ['oelig', 'œ'],
  ['permil', '‰'],
  ['quot', '"'],
  ['rarr', '→'],
  ['rdquo', '”'],
  ['rsaquo', '›'],
  ['rsquo', '’'],
  ['scaron', 'š'],
  ['thinsp', ' '],
  ['trade', '™'],
  ['zwj', '\u200D'],
  ['zwnj', '\u200C'],
]);

/** Text with the characters that its entities stand for; unknown ones stay as they are. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(
    /&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,8}));/gi,
    (whole, decimal, hex, name) => {
      if (name !== undefined) return named.get(name) ?? whole;
      return character(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal));
    },
  );
}

function character(code: number): string {
  // Numbers 128 to 159 mean what Windows means by them, in every browser.
  if (code >= 128 && code < 160) return new TextDecoder('windows-1252').decode(Uint8Array.of(code));
  const isText = code !== 0 && code <= 0x10_ff_ff && !(code >= 0xd8_00 && code <= 0xdf_ff);
  return isText ? String.fromCodePoint(code) : '\uFFFD';
}
