import type { Item } from './page.ts';

/** A trade of a feed. */
export interface FeedTrade {
  /** The name of the product in the feed. */
  readonly symbol: string;
  /** The trade as the REST API of the exchange writes it. */
  readonly trade: unknown;
}

/** Content of one message; all parts are left out of a message that means nothing to us. */
export interface FeedNews {
  readonly trades?: readonly FeedTrade[] | undefined;
  /** The newest id of a product, told without its trade. */
  readonly head?: { readonly symbol: string; readonly id: number } | undefined;
  /** Symbols whose trades come from now on; 'all' for those that were asked for. */
  readonly subscribed?: readonly string[] | 'all' | undefined;
  /** Reason for which the exchange has refused a subscription. */
  readonly refusal?: string | undefined;
  /** The server is about to close the connection. */
  readonly isLeaving?: boolean | undefined;
}

/** The WebSocket feed of an exchange: its questions and its messages. */
export interface FeedForm {
  readonly url: string;
  /** Finds the product of each symbol of the feed. */
  symbols(products: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  subscribe(symbols: readonly string[]): object;
  /** A question that the server answers, for a feed that is silent while nothing is traded. */
  readonly ping?: object | undefined;
  /** Reads a message; throws where a trade is not written as documented. */
  read(text: string): FeedNews;
  /** Reads a trade that is written as the REST API does; throws where it breaks a rule. */
  line(trade: unknown): Item;
  /** All that the feed and the REST API must agree on besides id and time, as one text. */
  facts(trade: unknown): string;
}

/** The feed as a source declares it. */
export interface FeedDeclaration extends Pick<FeedForm, 'subscribe' | 'ping' | 'read'> {
  readonly address: string;
  /** Path of the feed below another address that is set for the API. */
  readonly path: string;
  /** Finds symbols in the answer with the products. @default products are their own symbols */
  readonly symbolsIn?:
    | ((body: unknown, products: readonly string[]) => ReadonlyMap<string, string>)
    | undefined;
}
