# SPDX-License-Identifier: Apache-2.0
#
# usage: perl corpus_jsonl.pl TRAIN VALIDATION EVERY MAX_BYTES < documents
#
# stdin: UTF-8 text, one paragraph a line, a line "\f" after each document. Drops every paragraph
# seen before, then writes one {"text": ...} line per document: each EVERY-th one to VALIDATION, the
# others to TRAIN. Paragraphs are separated by an empty line. Stops after MAX_BYTES of text (0: no
# limit). stdout: the number of documents and bytes of each file.
use strict;
use warnings;

my ($train_path, $validation_path, $every, $max_bytes) = @ARGV;
my %escape = ("\\" => "\\\\", '"' => "\\\"", "\n" => "\\n", "\t" => "\\t");
my %count = (train => 0, validation => 0);
my %bytes = (train => 0, validation => 0);
my (%file, %seen, @paragraphs);
open $file{train}, '>', $train_path or die "$train_path: $!\n";
open $file{validation}, '>', $validation_path or die "$validation_path: $!\n";

sub write_document {
  return if !@paragraphs;
  my $text = join "\n\n", @paragraphs;
  @paragraphs = ();
  my $part = ($count{train} + $count{validation} + 1) % $every == 0 ? 'validation' : 'train';
  $count{$part} += 1;
  $bytes{$part} += length $text;
  $text =~ s/([\\"\n\t])/$escape{$1}/g;
  $text =~ tr/\x00-\x1f\x7f//d;
  print { $file{$part} } "{\"text\": \"$text\"}\n" or die "can't write: $!\n";
}

while (my $line = <STDIN>) {
  chomp $line;
  if ($line eq "\f") {
    write_document();
    last if $max_bytes && $bytes{train} + $bytes{validation} >= $max_bytes;
  } else {
    # "\r" stands for a line break inside a paragraph.
    $line =~ tr/\r/\n/;
    push @paragraphs, $line if !$seen{$line}++;
  }
}
write_document();
close $_ or die "can't write: $!\n" for values %file;
printf "%s: %d documents, %.2f MB\n", $_, $count{$_}, $bytes{$_} / 1e6 for qw(train validation);
