import type { Request, Response, Router } from 'express';
import { StatefoldError } from '../core/errors.js';
import { answerJson } from './answer.js';

export type Method = 'get' | 'post' | 'put' | 'delete';
export type Handler = (request: Request, response: Response) => Promise<void> | void;

/** One path with its methods; any other one is answered 405 with `Allow`, and OPTIONS with 204. */
export function resource(router: Router, path: string, handlers: Readonly<Partial<Record<Method, Handler>>>): void {
  const route = router.route(path);
  const methods = Object.keys(handlers) as Method[];
  for (const method of methods) {
    const handler = handlers[method];
    if (handler !== undefined) route[method](handler);
  }
  route.all(otherMethods(methods));
}

/** Ends a path whose methods are served elsewhere. */
export function otherMethods(methods: readonly Method[]): Handler {
  const allow = [
    ...methods.flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()])),
    'OPTIONS',
  ].join(', ');
  return (request, response) => {
    response.setHeader('Allow', allow);
    if (request.method === 'OPTIONS') return void response.status(204).end();
    throw new StatefoldError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here: ${allow}.`);
  };
}

/** A path parameter, percent-decoded; it is there when the path matched. */
export function parameter(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}

export const requestIdOfAnswer = (response: Response): string => String(response.getHeader('X-Request-Id') ?? '');

export function answer(response: Response, status: number, body: object | Buffer): void {
  answerJson(response, status, requestIdOfAnswer(response), Buffer.isBuffer(body) ? body : JSON.stringify(body));
}
