import type { SimulatedProduct } from './simulated-product.ts';

/** Writes one trade, and returns where it ends. */
export type WriteTrade = (bytes: Buffer, at: number, id: number) => number;

/** What one trade takes at most, in any of the ways to write it. */
const tradeBytesMax = 192;
const usPerDay = 86_400_000_000;
const powers: readonly number[] = Array.from({ length: 11 }, (_, n) => 10 ** n);

const text = (words: string): Buffer => Buffer.from(words);
const coinbaseTexts = {
  id: text('{"trade_id":'),
  buy: text(',"side":"buy","size":"'),
  sell: text(',"side":"sell","size":"'),
  price: text('","price":"'),
  time: text('","time":"'),
  numericPrice: text('","price":'),
  numericTime: text(',"time":"'),
  end: text('Z"}'),
};
const krakenTexts = {
  price: text('["'),
  size: text('","'),
  time: text('",'),
  buy: text(',"b","l","",'),
  sell: text(',"s","m","",'),
  end: text(']'),
};
const binanceTexts = {
  id: text('{"id":'),
  price: text(',"price":"'),
  size: text('","qty":"'),
  value: text('","quoteQty":"'),
  time: text('","time":'),
  buy: text(',"isBuyerMaker":true,"isBestMatch":true}'),
  sell: text(',"isBuyerMaker":false,"isBestMatch":true}'),
};

/** A list of trades, straight in bytes: by way of text it would take three times as long. */
export function pageBytes(ids: readonly number[], write: WriteTrade): Buffer {
  const bytes = Buffer.allocUnsafeSlow(ids.length * tradeBytesMax + 2);
  let at = 0;
  for (const id of ids) {
    bytes[at] = at === 0 ? 0x5b : 0x2c;
    at = write(bytes, at + 1, id);
  }
  if (at === 0) bytes[at++] = 0x5b;
  bytes[at++] = 0x5d;
  return bytes.subarray(0, at);
}

export function coinbaseTrade(product: SimulatedProduct): WriteTrade {
  const texts = coinbaseTexts;
  return (bytes, start, id) => {
    const isNumeric = id >= product.numericFrom;
    let at = copy(bytes, start, texts.id);
    at = integer(bytes, at, id);
    at = copy(bytes, at, product.isMakerBuy(id) ? texts.buy : texts.sell);
    at = decimal(bytes, at, product.size(id), 8);
    at = copy(bytes, at, isNumeric ? texts.numericPrice : texts.price);
    at = decimal(bytes, at, product.price(id), 2);
    at = copy(bytes, at, isNumeric ? texts.numericTime : texts.time);
    at = time(bytes, at, product.timeUs(id));
    return copy(bytes, at, texts.end);
  };
}

export function krakenTrade(product: SimulatedProduct): WriteTrade {
  const texts = krakenTexts;
  return (bytes, start, id) => {
    let at = copy(bytes, start, texts.price);
    at = decimal(bytes, at, product.price(id), 2);
    at = copy(bytes, at, texts.size);
    at = decimal(bytes, at, product.size(id), 8);
    at = copy(bytes, at, texts.time);
    at = decimal(bytes, at, product.timeUs(id), 6);
    // It tells the side of the taker.
    at = copy(bytes, at, product.isMakerBuy(id) ? texts.sell : texts.buy);
    at = integer(bytes, at, id);
    return copy(bytes, at, texts.end);
  };
}

export function binanceTrade(product: SimulatedProduct, isMicro: boolean): WriteTrade {
  const texts = binanceTexts;
  return (bytes, start, id) => {
    const [price, size, timeUs] = [product.price(id), product.size(id), product.timeUs(id)];
    let at = copy(bytes, start, texts.id);
    at = integer(bytes, at, id);
    at = copy(bytes, at, texts.price);
    at = decimal(bytes, at, price, 2);
    at = copy(bytes, at, texts.size);
    at = decimal(bytes, at, size, 8);
    at = copy(bytes, at, texts.value);
    at = decimal(bytes, at, price * size, 10);
    at = copy(bytes, at, texts.time);
    at = integer(bytes, at, isMicro ? timeUs : Math.floor(timeUs / 1000));
    return copy(bytes, at, product.isMakerBuy(id) ? texts.buy : texts.sell);
  };
}

function copy(bytes: Buffer, at: number, from: Buffer): number {
  const { length } = from;
  for (let i = 0; i < length; i += 1) bytes[at + i] = from[i] as number;
  return at + length;
}

function integer(bytes: Buffer, at: number, value: number): number {
  let width = 1;
  for (let limit = 10; value >= limit; limit *= 10) width += 1;
  return padded(bytes, at, value, width);
}

/** With zeros in front. */
function padded(bytes: Buffer, start: number, value: number, width: number): number {
  let at = start + width;
  let rest = value;
  for (; rest >= 2 ** 31 && at > start; rest = Math.floor(rest / 10)) {
    at -= 1;
    bytes[at] = 0x30 + (rest % 10);
  }
  // What fits into 31 bits is divided many times as fast.
  let small = rest | 0;
  while (at > start) {
    const next = (small / 10) | 0;
    at -= 1;
    bytes[at] = 0x30 + (small - next * 10);
    small = next;
  }
  return start + width;
}

function decimal(bytes: Buffer, at: number, units: number, digits: number): number {
  const scale = powers[digits] as number;
  const whole = Math.floor(units / scale);
  const point = integer(bytes, at, whole);
  bytes[point] = 0x2e;
  return padded(bytes, point + 1, units - whole * scale, digits);
}

/** The day that was last written, since 1970, and how. */
let lastDay = -1;
let lastDayText = text('');

function time(bytes: Buffer, start: number, timeUs: number): number {
  const day = Math.floor(timeUs / usPerDay);
  if (day !== lastDay) {
    lastDay = day;
    lastDayText = text(new Date(day * 86_400_000).toISOString().slice(0, 11));
  }
  const usOfDay = timeUs - day * usPerDay;
  const second = Math.floor(usOfDay / 1e6) | 0;
  let at = copy(bytes, start, lastDayText);
  at = padded(bytes, at, (second / 3600) | 0, 2);
  bytes[at] = 0x3a;
  at = padded(bytes, at + 1, ((second / 60) | 0) % 60, 2);
  bytes[at] = 0x3a;
  at = padded(bytes, at + 1, second % 60, 2);
  bytes[at] = 0x2e;
  return padded(bytes, at + 1, usOfDay - second * 1e6, 6);
}
