import { html, keyed, type LivePageOptions, page, type State } from 'spillway-http';
import type { FollowerStats } from '../harvesting/follower.ts';
import type { ProductOutcome } from '../harvesting/product-outcome.ts';

/** What the page of a follower shows. */
export interface FollowView {
  readonly exchange: string;
  readonly isSimulated: boolean;
  readonly baseUrl: string;
  readonly follower: FollowerStats;
  /** Requests a second. */
  readonly permitted: number;
  /** Tokens in the bucket. */
  readonly tokens: number;
  readonly breaker: string;
}

const madeUp = 'A simulated exchange: its trades are made up.';
const count = (value: number): string => value.toLocaleString('en-US');

function stateOf({ status, reason }: ProductOutcome): string {
  return status === 'done' ? 'up to date' : `${status} ${reason ?? ''}`;
}

/** The page at `/`: how far each product is, as it changes. */
export function followPage(shown: State<FollowView>): LivePageOptions {
  return {
    states: [shown],
    view: () => {
      const { exchange, isSimulated, baseUrl, follower, permitted, tokens, breaker } = shown.value;
      const { products, trades, requests, transformed, error } = follower;
      const state = transformed && `version ${transformed.version}`;
      return html`<h1>Ingest: ${exchange}</h1>
        ${isSimulated && html`<p><strong>${madeUp}</strong></p>`}
        <p class="muted">${baseUrl}: ${count(permitted)} requests a second permitted, bucket
          ${count(Math.floor(tokens))}, breaker ${breaker}. ${count(trades)} trades in
          ${count(requests)} requests since the start.</p>
        ${error !== undefined && html`<p role="alert">${error}</p>`}
        <table><thead><tr><th>product</th><th class="number">trades</th>
          <th class="number">up to id</th><th class="number">of</th><th>progress</th>
          <th class="number">gaps</th><th>state</th></tr></thead><tbody>${products.map((one) =>
            keyed(
              one.product,
              html`<tr><td>${one.product}</td>
                <td class="number">${count(one.tradesInAll)}</td>
                <td class="number">${count(Math.max(0, one.nextId - 1))}</td>
                <td class="number">${count(Math.max(0, one.toId - 1))}</td>
                <td><progress max="${Math.max(1, one.toId)}" value="${one.nextId}"></progress></td>
                <td class="number">${count(one.gaps)}</td><td>${stateOf(one)}</td></tr>`,
            ),
          )}</tbody></table>
        <p>Table: ${state ?? 'to be looked at'}. <a href="/report">Quality</a> and
          <a href="/quality/metrics">metrics</a> of the data.</p>`;
    },
    page: (view) =>
      page({ title: 'Ingest', styles: ['/style.css'], body: html`<main>${view}</main>` }),
  };
}
