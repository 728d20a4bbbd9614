const months = 'janfebmaraprmayjunjulaugsepoctnovdec';

/** The zones that mail and feeds name, in hours. */
const zones: Readonly<Record<string, number>> = {
  bst: 1,
  cdt: -5,
  cest: 2,
  cet: 1,
  cst: -6,
  edt: -4,
  eest: 3,
  eet: 2,
  est: -5,
  ist: 5.5,
  jst: 9,
  mdt: -6,
  msk: 3,
  mst: -7,
  pdt: -7,
  pst: -8,
};

const isoClock = '(\\d{2}):?(\\d{2})(?::?(\\d{2})(?:[.,]\\d+)?)?';
const clock = '(\\d{1,2}):(\\d{2})(?::(\\d{2})(?:[.,]\\d+)?)?';
const zone = '\\s*([a-z]+|[+-]\\d{1,2}:?\\d{2}|[+-]\\d{2})?';
const mail = new RegExp(
  `(\\d{1,2})[\\s-]+([a-z]{3})[a-z]*\\.?,?[\\s-]+(\\d{2,4})(?:,?\\s+${clock}${zone})?`,
  'i',
);
const american = new RegExp(
  `([a-z]{3})[a-z]*\\.?\\s+(\\d{1,2}),?\\s+(\\d{4})(?:,?\\s+${clock}${zone})?`,
  'i',
);
const iso = new RegExp(`^(\\d{4})-?(\\d{2})(?:-?(\\d{2})(?:[t\\s]\\s*${isoClock}${zone})?)?`, 'i');

type Parts = readonly (string | undefined)[];

/** UNIX time in milliseconds of a date in any usual form; a missing zone is UTC. */
export function readDate(text: string): number | undefined {
  const trimmed = text.trim().slice(0, 100);
  const [, year, month, day, ...time] = iso.exec(trimmed) ?? [];
  if (year !== undefined) return moment([year, month, day ?? '1'], time);
  const [, mailDay, mailMonth = '', mailYear = '', ...mailTime] = mail.exec(trimmed) ?? [];
  if (mailDay !== undefined) {
    return moment([fullYear(mailYear), monthNumber(mailMonth), mailDay], mailTime);
  }
  const [, name = '', dayOfMonth, fourDigits, ...rest] = american.exec(trimmed) ?? [];
  if (fourDigits === undefined) return undefined;
  return moment([fourDigits, monthNumber(name), dayOfMonth], rest);
}

function moment(date: Parts, [hour = '0', minute = '0', second = '0', offset = '']: Parts) {
  const [year = NaN, month = NaN, day = NaN] = date.map(Number);
  // Programs write the year 1 for a date that they do not know.
  const isDay = year >= 1_000 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
  const ms = Date.UTC(year, month - 1, day, Number(hour), Number(minute), Number(second));
  const isTime = Number(hour) <= 24 && Number(minute) < 60 && Number(second) <= 60;
  return isDay && isTime ? ms - 3_600_000 * zoneHours(offset.toLowerCase()) : undefined;
}

function zoneHours(offset: string): number {
  const [, sign, hours, minutes = '0'] = /^([+-])(\d{1,2}):?(\d{2})?$/.exec(offset) ?? [];
  if (hours === undefined) return zones[offset] ?? 0;
  return (sign === '-' ? -1 : 1) * (Number(hours) + Number(minutes) / 60);
}

function monthNumber(name: string): string {
  const at = months.indexOf(name.slice(0, 3).toLowerCase());
  return at % 3 === 0 ? String(at / 3 + 1) : '0';
}

function fullYear(year: string): string {
  if (year.length !== 2) return year;
  return Number(year) < 70 ? `20${year}` : `19${year}`;
}
