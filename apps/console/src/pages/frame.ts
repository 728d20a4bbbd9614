import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Html } from 'spillway-http';
import { framedPage, type PlaceLink } from 'spillway-http/kit';
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
  { view, places }: FrameOptions,
): FastifyReply {
  const page = framedPage({
    title,
    main,
    styles: [style],
    services: [{ name: 'Console', href: '/', current: true }],
    places: placeLinks(places, view()),
  });
  return reply.type('text/html; charset=utf-8').header('cache-control', 'no-store').send(page);
}

/** The links to all places, with their numbers. */
export function placeLinks(places: readonly Place[], view: View, current?: Place): PlaceLink[] {
  return places.map((place) => {
    const number = place.count?.(view) ?? 0;
    const link = { name: place.name, href: place.path, current: place === current };
    return number > 0 ? { ...link, count: String(number) } : link;
  });
}

/** The session of the browser that asks; empty without one. */
export function sessionOf({ headers }: FastifyRequest): string {
  const pairs = (headers.cookie ?? '').split(';').map((pair) => pair.trim());
  return (
    pairs.find((pair) => pair.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1) ?? ''
  );
}
