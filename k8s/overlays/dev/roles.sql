-- Run once, by the image, as the superuser of an empty Postgres.
CREATE ROLE quarantine_owner LOGIN PASSWORD 'dev-only';
CREATE ROLE quarantine_writer LOGIN PASSWORD 'dev-only';
CREATE DATABASE quarantine OWNER quarantine_owner;
