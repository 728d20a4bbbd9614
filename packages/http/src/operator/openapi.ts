import type { RouteOptions } from 'fastify';
import { plain } from 'spillway/internal';

type Json = Readonly<Record<string, unknown>>;

/** Routes that only serve pages of this package. */
const inner = /^\/(?:-|_kit|_live)(?:\/|$)/;

/** Describes routes as OpenAPI 3.1, from the schemas that they declare. */
export function openApi(routes: Iterable<RouteOptions>, title: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of routes) {
    if (inner.test(route.url) || route.url.includes('*')) continue;
    const path = route.url.replaceAll(/:(\w+)(?:\([^)]*\))?/g, '{$1}');
    for (const method of [route.method].flat()) {
      if (method === 'HEAD' || method === 'OPTIONS') continue;
      paths[path] = { ...paths[path], [method.toLowerCase()]: operation(route) };
    }
  }
  return { openapi: '3.1.0', info: { title, version: '1' }, paths };
}

function operation({ url, schema }: RouteOptions): Json {
  const { summary, description, tags, params, querystring, headers, body, response } = Object(
    plain(schema),
  );
  const named = [...url.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
  const parameters = [
    ...named.map((name) => {
      const own = Object(Object(params).properties)[name] ?? { type: 'string' };
      return { name, in: 'path', required: true, schema: own };
    }),
    ...parametersOf('query', querystring),
    ...parametersOf('header', headers),
  ];
  const answers = Object.entries(Object(response)).map(([status, answer]) => {
    const about = Object(answer).description ?? 'The answer';
    return [status, { description: about, content: { 'application/json': { schema: answer } } }];
  });
  const content = { 'application/json': { schema: body } };
  return {
    summary,
    description,
    tags,
    parameters: parameters.length > 0 ? parameters : undefined,
    requestBody: body === undefined ? undefined : { required: true, content },
    responses: answers.length > 0 ? Object.fromEntries(answers) : noResponse,
  };
}

const noResponse = { default: { description: 'Not declared' } };

function parametersOf(place: string, schema: unknown): Json[] {
  const { properties, required = [] } = Object(schema);
  return Object.entries(Object(properties)).map(([name, own]) => {
    return { name, in: place, required: required.includes(name), schema: own };
  });
}
