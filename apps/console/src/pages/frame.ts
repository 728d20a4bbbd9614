import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Html } from 'spillway-http';
import { framedPage, type PlaceLink } from 'spillway-http/kit';
import { advise } from '../advice.ts';
import type { View } from '../open.ts';

/** A page of the console in its second row of links. */
export interface Place {
  readonly name: string;
  readonly path: string;
  readonly show: (view: View, service: string) => Html;
  /** Number beside the name. @default none */
  readonly count?: (view: View) => number;
}

export const style = '/console.css';
export const cookieName = 'spillway-console';

/** The pages of the console, and the state of the services that they show. */
export interface FrameOptions {
  readonly view: () => View;
  readonly places: readonly Place[];
}

/** Sends a page that is not live, in the frame of the console. */
export function sendPage(
  reply: FastifyReply,
  { title, main }: { readonly title: string; readonly main: Html },
  options: FrameOptions,
): FastifyReply {
  const page = framed(main, options, { title });
  return reply.type('text/html; charset=utf-8').header('cache-control', 'no-store').send(page);
}

/** A page in the frame of the console: that of a place, which is live, or one with a title. */
export function framed(
  main: Html,
  { view, places }: FrameOptions,
  { title, place }: { readonly title?: string; readonly place?: Place },
): Html {
  const shown = view();
  const warning = advise(shown.services)[0]?.title;
  const links = places.map((each): PlaceLink => {
    const number = each.count?.(shown) ?? 0;
    const count = number > 0 ? String(number) : undefined;
    return { name: each.name, href: each.path, current: each === place, count };
  });
  return framedPage({
    title: title ?? warning ?? 'All calm',
    main,
    live: place !== undefined,
    styles: [style],
    services: [{ name: 'Console', href: '/', current: true, warning }],
    places: links,
  });
}

/** The session of the browser that asks; empty without one. */
export function sessionOf({ headers }: FastifyRequest): string {
  const pairs = (headers.cookie ?? '').split(';').map((pair) => pair.trim());
  return (
    pairs.find((pair) => pair.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1) ?? ''
  );
}
