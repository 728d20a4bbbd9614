import { html, keyed, type LivePageOptions, page, type State } from 'spillway-http';
import type { FollowerStats } from '../harvesting/follower.ts';

/** What the page of a follower shows. */
export interface FollowView {
  readonly exchange: string;
  readonly isSimulated: boolean;
  readonly baseUrl: string;
  readonly follower: FollowerStats;
  /** Requests a second. */
  readonly permitted: number;
  readonly breaker: string;
}

const madeUp = 'A simulated exchange: its trades are made up.';
const count = (value: number): string => value.toLocaleString('en-US');

/** The page at `/`: how far each product is, as it changes. */
export function followPage(shown: State<FollowView>): LivePageOptions {
  return {
    states: [shown],
    view: () => {
      const { exchange, isSimulated, baseUrl, follower, permitted, breaker } = shown.value;
      const { products, trades, requests, transformed, error } = follower;
      return html`<h1>Ingest: ${exchange}</h1>
        ${isSimulated && html`<p><strong>${madeUp}</strong></p>`}
        <p class="muted">${baseUrl}: ${permitted} requests a second permitted, breaker ${breaker}.
          ${count(trades)} trades in ${count(requests)} requests since the start.</p>
        ${error !== undefined && html`<p role="alert">${error}</p>`}
        <table><thead><tr><th>product</th><th>trades</th><th>up to id</th><th>of</th>
          <th>gaps</th><th>state</th></tr></thead><tbody>${products.map((one) =>
            keyed(
              one.product,
              html`<tr><td>${one.product}</td><td>${count(one.tradesInAll)}</td>
                <td>${count(Math.max(0, one.nextId - 1))}</td>
                <td><progress max="${Math.max(1, one.toId)}" value="${one.nextId}"></progress></td>
                <td>${one.gaps}</td><td>${one.status} ${one.reason ?? ''}</td></tr>`,
            ),
          )}</tbody></table>
        <p>Table: version ${transformed?.version ?? 'none yet'}. <a href="/report">Quality</a>,
          <a href="/-/stats">all numbers</a>, <a href="/-/metrics">metrics</a>.</p>`;
    },
    page: (view) =>
      page({ title: 'Ingest', styles: ['/style.css'], body: html`<main>${view}</main>` }),
  };
}
