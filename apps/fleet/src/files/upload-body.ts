import { fleetError } from '../errors.ts';

const quote = 0x22;
const backslash = 0x5c;
const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
const isOpening = (byte: number) => byte === 0x7b || byte === 0x5b;
const isClosing = (byte: number) => byte === 0x7d || byte === 0x5d;

/** The rest of a request, without its games, has at most this many bytes. */
const restBytesMax = 1_048_576;
const gamesKey = 'pgn';

/**
 * Reads a JSON body whose `pgn` may have any length: its value is decoded from base64 and given out
 * in pieces; the rest of the body is kept, with an empty `pgn`, and parsed at the end.
 *
 *     between ───────── " ────────▶ text ── " that is not escaped ──▶ between
 *        └─ " after `"pgn":` ─▶ games ── any " ──▶ text, which that same " ends
 *
 * `"pgn":` counts in the outermost object only; its second value is refused.
 */
export class UploadBody {
  /** One buffer that grows: a list of pieces would cost far more, if each had a single byte. */
  #rest = Buffer.alloc(4_096);
  #restBytes = 0;
  #depth = 0;
  #isObject = false;
  #place: 'between' | 'text' | 'games' = 'between';
  #isEscaped = false;
  /** At the top level: what comes next is a key. */
  #isKeyNext = false;
  /** The text of a key at the top level, as far as it matters. */
  #key: number[] | undefined;
  #isGamesNext = false;
  #hasGames = false;
  #before: unknown;
  readonly #games = new Base64Pieces();

  /**
   * The fields in front of the games, with an empty `pgn`; undefined until the games begin. Fields
   * behind the games may still replace them.
   */
  get before(): unknown {
    return this.#before;
  }

  /** The reason why the games cannot be used; undefined if they can. */
  get gamesFault(): string | undefined {
    return this.#hasGames ? this.#games.fault : undefined;
  }

  /**
   * Takes the next piece of the body, gives the bytes of games in it; throws `REQUEST_REFUSED` if
   * what stands in front of the games is not JSON.
   */
  take(chunk: Buffer): Buffer[] {
    const found: Buffer[] = [];
    for (let at = 0; at < chunk.length; ) {
      at = this.#place === 'games' ? this.#takeGames(chunk, at, found) : this.#takeRest(chunk, at);
    }
    return found;
  }

  /** Gives the rest of the body, without the games; throws `REQUEST_REFUSED` if it is not JSON. */
  end(): unknown {
    if (this.#hasGames) this.#games.end();
    return this.#parse('');
  }

  #parse(end: string): unknown {
    try {
      return JSON.parse(this.#rest.toString('utf8', 0, this.#restBytes) + end);
    } catch {
      throw fleetError('REQUEST_REFUSED', 'request is not json encoded');
    }
  }

  #takeGames(chunk: Buffer, start: number, found: Buffer[]): number {
    const close = chunk.indexOf(quote, start);
    const end = close < 0 ? chunk.length : close;
    const bytes = this.#games.take(chunk.toString('latin1', start, end));
    if (bytes.length > 0) found.push(bytes);
    // The quote is kept with the rest, which then reads `"pgn":""`.
    if (close >= 0) this.#place = 'text';
    return end;
  }

  #takeRest(chunk: Buffer, start: number): number {
    let at = start;
    while (at < chunk.length && this.#place !== 'games') {
      this.#step(chunk[at] as number);
      at += 1;
    }
    this.#keep(chunk.subarray(start, at));
    if (this.#place === 'games') this.#before = this.#parse('"}');
    return at;
  }

  #keep(bytes: Buffer): void {
    const total = this.#restBytes + bytes.length;
    if (total > restBytesMax) {
      throw fleetError('REQUEST_TOO_LARGE', `more than ${restBytesMax} bytes besides the games`);
    }
    if (total > this.#rest.length) {
      const larger = Buffer.alloc(Math.min(2 * total, restBytesMax));
      this.#rest.copy(larger, 0, 0, this.#restBytes);
      this.#rest = larger;
    }
    bytes.copy(this.#rest, this.#restBytes);
    this.#restBytes = total;
  }

  #step(byte: number): void {
    if (this.#place === 'text') this.#stepInText(byte);
    else if (byte === quote) this.#openString();
    else if (!isSpace(byte)) this.#stepBetween(byte);
  }

  #stepInText(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === backslash) this.#isEscaped = true;
    else if (byte === quote) {
      this.#place = 'between';
      this.#isKeyNext = false;
      return;
    }
    if (this.#key !== undefined && this.#key.length <= gamesKey.length) this.#key.push(byte);
  }

  #openString(): void {
    if (this.#isGamesNext) {
      if (this.#hasGames) throw fleetError('REQUEST_REFUSED', 'request has two of pgn');
      this.#hasGames = true;
      this.#place = 'games';
      this.#isGamesNext = false;
      return;
    }
    this.#place = 'text';
    this.#key = this.#isKeyNext ? [] : undefined;
  }

  #stepBetween(byte: number): void {
    const isColon = byte === 0x3a;
    this.#isGamesNext =
      isColon && this.#key !== undefined && String.fromCharCode(...this.#key) === gamesKey;
    this.#key = undefined;
    if (isOpening(byte)) this.#depth += 1;
    if (isClosing(byte)) this.#depth -= 1;
    if (this.#depth === 1 && isOpening(byte)) this.#isObject = byte === 0x7b;
    const isStart = isOpening(byte) || byte === 0x2c;
    this.#isKeyNext = this.#isObject && this.#depth === 1 && isStart;
  }
}

/** Decodes base64 that arrives in pieces of any length; invalid base64 sets `fault`. */
class Base64Pieces {
  fault: string | undefined;
  #carry = '';
  #isPadded = false;

  take(piece: string): Buffer {
    let text = this.#carry + piece;
    if (text.includes('\\')) text = text.replaceAll('\\/', '/');
    const isPlain = /^[A-Za-z0-9+/]*={0,2}\\?$/.test(text);
    if (!isPlain || (this.#isPadded && text !== '')) this.fault = 'pgn is not base64';
    if (this.fault !== undefined) return Buffer.alloc(0);
    // Half an escape waits for its other half.
    const whole = text.endsWith('\\') ? text.length - 1 : text.length;
    const used = whole - (whole % 4);
    this.#carry = text.slice(used);
    this.#isPadded = text[used - 1] === '=';
    return Buffer.from(text.slice(0, used), 'base64');
  }

  end(): void {
    if (this.#carry !== '') this.fault ??= 'pgn is not base64';
  }
}
