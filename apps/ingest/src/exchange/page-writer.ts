import type { SimulatedProduct } from './simulated-product.ts';

/** The texts between the values of a trade, the first one before the first value. */
type Texts = readonly Buffer[];

const texts = (...parts: readonly string[]): Texts => parts.map((part) => Buffer.from(part));
const usPerDay = 86_400_000_000;
/** What one trade takes at most, in any of the ways to write it. */
const tradeBytesMax = 256;

const coinbaseTexts = texts(
  '{"trade_id":',
  ',"side":"buy","size":"',
  ',"side":"sell","size":"',
  '","price":"',
  '","time":"',
  'Z"}',
);
const numericTexts = texts('","price":', ',"time":"');
const krakenTexts = texts('["', '","', '",', ',"b","l","",', ',"s","m","",', ']');
const binanceTexts = texts(
  '{"id":',
  ',"price":"',
  '","qty":"',
  '","quoteQty":"',
  '","time":',
  ',"isBuyerMaker":true,"isBestMatch":true}',
  ',"isBuyerMaker":false,"isBestMatch":true}',
);

/** Writes lists of trades straight into bytes: text first would take three times as long. */
export class PageWriter {
  readonly #bytes: Buffer;
  #at = 0;
  /** The day that was last written, since 1970, and how. */
  #day = -1;
  #dayText = Buffer.alloc(0);

  constructor(trades: number) {
    this.#bytes = Buffer.allocUnsafeSlow(trades * tradeBytesMax + 2);
  }

  /** A list of trades, each written by `write`. */
  list(ids: readonly number[], write: (id: number) => void): Buffer {
    this.#byte(0x5b);
    for (let at = 0; at < ids.length; at += 1) {
      if (at > 0) this.#byte(0x2c);
      write(ids[at] as number);
    }
    this.#byte(0x5d);
    return this.#bytes.subarray(0, this.#at);
  }

  coinbase(product: SimulatedProduct, id: number): void {
    const isNumeric = id >= product.numericFrom;
    this.#text(coinbaseTexts, 0);
    this.#integer(id);
    this.#text(coinbaseTexts, product.isMakerBuy(id) ? 1 : 2);
    this.#decimal(product.size(id), 8);
    this.#text(isNumeric ? numericTexts : coinbaseTexts, isNumeric ? 0 : 3);
    this.#decimal(product.price(id), 2);
    this.#text(isNumeric ? numericTexts : coinbaseTexts, isNumeric ? 1 : 4);
    this.#time(product.timeUs(id));
    this.#text(coinbaseTexts, 5);
  }

  kraken(product: SimulatedProduct, id: number): void {
    this.#text(krakenTexts, 0);
    this.#decimal(product.price(id), 2);
    this.#text(krakenTexts, 1);
    this.#decimal(product.size(id), 8);
    this.#text(krakenTexts, 2);
    this.#decimal(product.timeUs(id), 6);
    // It tells the side of the taker.
    this.#text(krakenTexts, product.isMakerBuy(id) ? 4 : 3);
    this.#integer(id);
    this.#text(krakenTexts, 5);
  }

  binance(product: SimulatedProduct, id: number, isMicro: boolean): void {
    const timeUs = product.timeUs(id);
    this.#text(binanceTexts, 0);
    this.#integer(id);
    this.#text(binanceTexts, 1);
    this.#decimal(product.price(id), 2);
    this.#text(binanceTexts, 2);
    this.#decimal(product.size(id), 8);
    this.#text(binanceTexts, 3);
    this.#decimal(product.price(id) * product.size(id), 10);
    this.#text(binanceTexts, 4);
    this.#integer(isMicro ? timeUs : Math.floor(timeUs / 1000));
    this.#text(binanceTexts, product.isMakerBuy(id) ? 5 : 6);
  }

  #byte(byte: number): void {
    this.#bytes[this.#at] = byte;
    this.#at += 1;
  }

  #text(list: Texts, place: number): void {
    this.#copy(list[place] as Buffer);
  }

  #copy(text: Buffer): void {
    const bytes = this.#bytes;
    const at = this.#at;
    for (let i = 0; i < text.length; i += 1) bytes[at + i] = text[i] as number;
    this.#at = at + text.length;
  }

  #integer(value: number): void {
    let width = 1;
    for (let limit = 10; value >= limit; limit *= 10) width += 1;
    this.#padded(value, width);
  }

  /** With zeros in front. */
  #padded(value: number, width: number): void {
    const bytes = this.#bytes;
    let rest = value;
    let at = this.#at + width;
    this.#at = at;
    for (let left = width; left > 0; left -= 1) {
      const next = rest < 2 ** 31 ? ((rest | 0) / 10) | 0 : Math.floor(rest / 10);
      at -= 1;
      bytes[at] = 0x30 + (rest - next * 10);
      rest = next;
    }
  }

  #decimal(units: number, digits: number): void {
    const scale = 10 ** digits;
    const whole = Math.floor(units / scale);
    this.#integer(whole);
    this.#byte(0x2e);
    this.#padded(units - whole * scale, digits);
  }

  #time(timeUs: number): void {
    const day = Math.floor(timeUs / usPerDay);
    if (day !== this.#day) {
      this.#day = day;
      this.#dayText = Buffer.from(new Date(day * 86_400_000).toISOString().slice(0, 11));
    }
    const usOfDay = timeUs - day * usPerDay;
    const second = Math.floor(usOfDay / 1e6);
    this.#copy(this.#dayText);
    this.#padded((second / 3600) | 0, 2);
    this.#byte(0x3a);
    this.#padded(((second / 60) | 0) % 60, 2);
    this.#byte(0x3a);
    this.#padded(second % 60, 2);
    this.#byte(0x2e);
    this.#padded(usOfDay - second * 1e6, 6);
  }
}
